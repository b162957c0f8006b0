"""``fusebuild doctor``."""

from __future__ import annotations

import click

from fusebuild.cli.options import NVCC
from fusebuild.cli.output import Answer
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb


@click.command(cls=Verb, report="list[fusebuild.report.doctor:DoctorFinding]")
@NVCC
def doctor(nvcc: str | None) -> Answer:
    """Say which compilers and libraries are found, whether they fit each other, and what to do where not."""
    from fusebuild.report.doctor import diagnose

    findings = diagnose(nvcc=nvcc)

    def tell() -> None:
        colors = {"ok": "green", "warn": "yellow", "error": "red"}
        for finding in findings:
            status = click.style(f"{finding.status:5}", fg=colors[finding.status])
            click.echo(f"{status} {finding.name:16} {printable(finding.found)}")
            if finding.advice:
                click.echo(f"      {'':16} {printable(finding.advice)}")

    has_errors = any(finding.status == "error" for finding in findings)
    return Answer(report=findings, tell=tell, exit_code=5 if has_errors else 0)
