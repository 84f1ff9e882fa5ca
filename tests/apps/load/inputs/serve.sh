python3 -m sglang.launch_server --model-path model --ep-size 2 --tp-size 2 --nnodes 1 --moe-a2a-backend deepep \
    --ep-num-redundant-experts 2 --ep-dispatch-algorithm static --quantization w8a8 --init-expert-location legal.json --made-up 3
