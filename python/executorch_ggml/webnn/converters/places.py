"""Where resampling reads: the same for all converters that say it pixel by pixel."""


def source_places(size: int, wanted: int) -> list[float]:
    """Where each pixel of a resized line is in the line."""
    return [min(max((i + 0.5) * size / wanted - 0.5, 0.0), size - 1.0) for i in range(wanted)]
