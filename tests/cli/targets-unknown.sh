weir targets web-gpu
