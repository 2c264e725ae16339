package export_test

// spread is plans of every kind that a strategy can be: each model family, every schedule, stage of ZeRO,
// kind of context exchange, relief of memory and precision, with what systems allow and what they refuse.
var spread = []struct {
	model, strategy string
	batch, seq      int
	precision       string
}{
	{"llama-3-8b", "dp=64 tp=1 pp=1 micro_batch=1 zero=2", 512, 8192, ""},
	{"llama-3-8b", "dp=8 tp=1 pp=1 micro_batch=2 zero=0", 128, 4096, ""},
	{"llama-3-8b", "dp=32 tp=1 pp=1 cp=2 cp_kind=ulysses micro_batch=1 zero=3 shard=8 offload.optimizer=1", 128,
		8192,
		""},
	{"llama-3-8b", "dp=4 tp=4 pp=4 micro_batch=1 zero=0", 128, 8192, ""},
	{"llama-3-8b", "dp=1 tp=8 pp=1 micro_batch=1 sp", 8, 8192, ""},
	{"llama-3-8b", "dp=32 tp=2 pp=1 micro_batch=2 zero=1 sp recompute=selective", 512, 8192, "fp8"},
	{"llama-3-8b", "dp=8 tp=1 pp=1 micro_batch=1 zero=1 offload.optimizer=0.5 offload.activations=0.5", 64, 8192,
		""},
	{"llama-3-8b", "dp=16 tp=1 pp=1 micro_batch=1 zero=1 shard=8 recompute=full:8", 64, 8192, "mxfp8"},
	{"llama-3-8b", "dp=8 tp=1 pp=1 micro_batch=1 offload.optimizer=1", 64, 8192, "fp32"},
	{"llama-3-8b", "dp=4 tp=2 pp=1 cp=2 cp_kind=gather micro_batch=1 zero=0 sp", 64, 8192, "tf32"},
	{"llama-2-7b window=1024", "dp=8 tp=1 pp=1 micro_batch=1 zero=1", 64, 4096, ""},
	{"llama-3-70b", "dp=2 tp=8 pp=4 vpp=5 micro_batch=1 zero=1 sp recompute=full:2", 128, 8192, ""},
	{"llama-3-70b", "dp=2 tp=8 pp=4 micro_batch=1 zero=1 sp schedule=zbh1 layers=21,21,20,18", 128, 8192, ""},
	{"llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 zero=1 sp schedule=zbv layers=10,10,11,10,10,10,10,9",
		128,
		8192, ""},
	{"llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 zero=1 sp schedule=dualpipev", 128, 8192, ""},
	{"llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 zero=1 sp", 20, 8192, ""},
	{"llama-3-70b", "dp=2 tp=8 pp=4 vpp=2 micro_batch=1 zero=1 sp", 6, 8192, ""},
	{"llama-3-70b", "dp=4 tp=4 pp=4 vpp=20 micro_batch=2 zero=1 sp offload.optimizer=1", 128, 4096, ""},
	{"llama-3-70b", "dp=8 tp=8 pp=2 vpp=4 micro_batch=1 zero=3 sp offload.activations=0.5", 128, 8192, ""},
	{"llama-3-405b",
		"dp=32 tp=4 pp=32 cp=4 vpp=2 micro_batch=1 zero=1 sp schedule=zbv " +
			"layers=1,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2," +
			"2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,1", 2048, 8192, ""},
	{"llama-3-405b", "dp=128 tp=8 pp=16 micro_batch=1 zero=1 sp recompute=full " +
		"layers=8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,6",
		2048, 8192, "bf16"},
	{"gpt-3-175b", "dp=8 tp=8 pp=8 vpp=12 micro_batch=1 zero=1 sp recompute=selective", 1536, 2048, "fp16"},
	{"gpt-3-175b", "dp=8 tp=8 pp=8 micro_batch=1 recompute=full", 1536, 2048, "bf16"},
	{"gpt2", "dp=8 tp=1 pp=1 micro_batch=4", 64, 2048, "nvfp4"},
	{"mixtral-8x7b", "dp=8 tp=2 pp=4 ep=8 micro_batch=1 zero=1 sp", 256, 4096, ""},
	{"mixtral-8x7b", "dp=8 tp=4 pp=1 ep=8 etp=4 micro_batch=1 zero=1", 256, 4096, ""},
	{"mixtral-8x7b", "dp=8 tp=2 pp=1 ep=4 micro_batch=1 zero=1 shard=4 sp", 256, 4096, "fp16"},
	{"mixtral-8x7b", "dp=8 tp=4 pp=1 ep=1 micro_batch=1 zero=1 sp", 256, 4096, ""},
	{"mixtral-8x22b", "dp=16 tp=4 pp=2 ep=8 micro_batch=1 zero=1 shard=8 sp schedule=fthenb", 256, 4096, ""},
	{"deepseek-v3",
		"dp=128 tp=1 pp=16 ep=64 vpp=2 micro_batch=1 zero=1 schedule=dualpipev " +
			"layers=1,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,0 recompute=full:1", 15360, 4096,
		"fp8"},
	{"deepseek-v3", "dp=16 tp=2 pp=8 cp=2 ep=32 micro_batch=1 zero=1 sp layers=8,8,8,8,8,8,8,5", 1024, 4096, ""},
	{"qwen3-30b-a3b", "dp=8 tp=4 pp=2 ep=8 micro_batch=1 zero=1 sp", 256, 4096, ""},
	{"qwen3-30b-a3b", "dp=8 tp=8 pp=1 ep=8 micro_batch=1 zero=1 sp", 256, 4096, ""},
	{"qwen3-235b-a22b", "dp=16 tp=4 pp=1 ep=64 micro_batch=1 zero=3 sp recompute=full", 256, 4096, ""},
	{"qwen2.5-7b", "dp=4 tp=4 pp=2 micro_batch=1 zero=2 sp", 128, 4096, ""},
	{"qwen2.5-72b", "dp=2 tp=8 pp=4 cp=2 cp_kind=ring micro_batch=1 zero=1 sp recompute=full:10", 128, 32768,
		""},
}
