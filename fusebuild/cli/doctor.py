"""``fusebuild doctor``."""

from __future__ import annotations

import sys

import click

from fusebuild.cli.options import JSON, NVCC
from fusebuild.cli.output import print_json
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb


@click.command(cls=Verb, report="list[fusebuild.report.doctor:DoctorFinding]")
@NVCC
@JSON
def doctor(nvcc: str | None, as_json: bool) -> None:
    """Say which compilers and libraries are found, whether they fit each other, and what to do where not."""
    from fusebuild.report.doctor import diagnose

    findings = diagnose(nvcc=nvcc)
    if as_json:
        print_json(findings)
    else:
        colors = {"ok": "green", "warn": "yellow", "error": "red"}
        for finding in findings:
            status = click.style(f"{finding.status:5}", fg=colors[finding.status])
            click.echo(f"{status} {finding.name:16} {printable(finding.found)}")
            if finding.advice:
                click.echo(f"      {'':16} {printable(finding.advice)}")
    if any(finding.status == "error" for finding in findings):
        sys.exit(5)
