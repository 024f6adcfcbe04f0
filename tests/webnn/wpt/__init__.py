"""The conformance cases of the specification's two test suites: web-platform-tests and webnn-baseline."""
