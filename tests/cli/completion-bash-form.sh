weir completion bash | grep -A5 -e "--form)"
