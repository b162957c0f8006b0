"""Templates as the Python bytecode that Jinja makes of them, kept between runs: to make it takes longer than to plan a
recipe and render its kernels."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError

import jinja2
from jinja2.bccache import Bucket

from fusebuild.resources import cache_dir

logger = logging.getLogger(__name__)


class CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Jinja's own cache, in a folder of fusebuild's for each release of Jinja, whose bytecode need not suit another. A
    template that changed is compiled again; files that cannot be read or written only make the next run slower."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(str(cache_dir(environ) / "templates" / jinja2.__version__))

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except (OSError, EOFError, UnpicklingError) as error:
            logger.debug("no compiled template is read: %s", error)
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        try:
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
        except OSError as error:
            logger.debug("a compiled template is not cached: %s", error)
