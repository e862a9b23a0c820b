for target in ort-1.22 webgpu tensorrt; do weir targets $target; done
