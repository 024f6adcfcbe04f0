"""What a program is made of, and where its time and memory go: as data, as one HTML page, and as a Graphviz file."""

from .build import report_of, times_of
from .dot import to_dot
from .model import Measured, Report
from .page import as_plain, to_html

__all__ = ["Measured", "Report", "as_plain", "report_of", "times_of", "to_dot", "to_html"]
