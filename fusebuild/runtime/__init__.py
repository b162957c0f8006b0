"""Running artifacts: a small Python face (:mod:`fusebuild.runtime.loader`) over the native executor in ``native/``."""
