"""A program: ``run_onnxruntime.py MODEL OPTIMIZED [WEIGHTS]`` writes what ONNX Runtime makes of a model.

With a name for a file of their own, weights go there.
"""

import sys

import onnxruntime


def main(model: str, optimized: str, weights: str = "") -> None:
    """Optimize a model file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = optimized
    if weights:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", weights)
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"onnxruntime: {error}")
