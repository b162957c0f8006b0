"""The command line: a file for each verb, a few lines over the function that does the work.

A verb is added as a file here and a name in :data:`fusebuild.cli.main.VERBS`. Nothing else of fusebuild imports this
package.
"""
