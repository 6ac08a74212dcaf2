"""The filter language of the runs list and of GET /api/v1/runs; docs of each field are in `fields`."""

from webapp.record.runs.filtering.compiling import SHOWN, Compiled, compile_filter, narrow
from webapp.record.runs.filtering.parsing import FilterError, parse

__all__ = ["SHOWN", "Compiled", "FilterError", "compile_filter", "narrow", "parse"]
