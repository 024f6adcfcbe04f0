"""The JavaScript libraries of the report page: fetches the pinned versions from npm, or checks the files (--check).

They are in the tree so that a package is built, and a page made, without a network.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ASSETS = Path(__file__).parent.parent / "python" / "executorch_ggml" / "report" / "assets"
REGISTRY = "https://registry.npmjs.org"


@dataclass(frozen=True)
class Library:
    """A package of npm's, and the one file of it that the page has."""

    package: str
    version: str
    path: str
    sha256: str

    @property
    def file(self) -> Path:
        """Where it is in the tree."""
        return ASSETS / Path(self.path).name

    @property
    def title(self) -> str:
        """Its name and version."""
        return f"{self.package} {self.version}"


LIBRARIES = (
    Library(
        "cytoscape",
        "3.34.4",
        "dist/cytoscape.min.js",
        "081591ab735b2b6a3b31a3c60f8f3a3e2fee8c92939e0c7820ad1208571b6cd8",
    ),
    Library(
        "@dagrejs/dagre",
        "3.1.3",
        "dist/dagre.min.js",
        "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578",
    ),
    Library("d3", "7.9.0", "dist/d3.min.js", "f2094bbf6141b359722c4fe454eb6c4b0f0e42cc10cc7af921fc158fceb86539"),
)


def main() -> None:
    """Fetch, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fetch nothing: fail where a file is another")
    if not parser.parse_args().check:
        _fetch()
    _check()


def _check() -> None:
    for library in LIBRARIES:
        if hashlib.sha256(library.file.read_bytes()).hexdigest() != library.sha256:
            raise SystemExit(f"{library.file} is not that of {library.title}: run tools/report_assets.py")
    notice = (ASSETS / "NOTICE").read_text()
    missing = [library.title for library in LIBRARIES if library.title not in notice]
    if missing:
        raise SystemExit(f"{ASSETS / 'NOTICE'} lacks {', '.join(missing)}: run tools/report_assets.py")


def _fetch() -> None:
    licences = ["The page of `executorch-ggml report` contains these libraries."]
    for library in LIBRARIES:
        name = library.package.rpartition("/")[2]
        url = f"{REGISTRY}/{library.package}/-/{name}-{library.version}.tgz"
        with urllib.request.urlopen(url) as response:
            data = response.read()
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            contents = _member(archive, library.path)
            text = _member(archive, "LICENSE").decode().strip()
        if (found := hashlib.sha256(contents).hexdigest()) != library.sha256:
            raise SystemExit(f"{library.path} of {library.title} has the SHA-256 {found}, expected {library.sha256}")
        library.file.write_bytes(contents)
        licences.append(f"{library.title}\n{'=' * len(library.title)}\n\n{text}")
    (ASSETS / "NOTICE").write_text("\n\n\n".join(licences) + "\n", encoding="utf-8")


def _member(archive: tarfile.TarFile, path: str) -> bytes:
    file = archive.extractfile(f"package/{path}")
    if file is None:
        raise SystemExit(f"{archive.name!r} has no {path}")
    return file.read()


if __name__ == "__main__":
    main()
