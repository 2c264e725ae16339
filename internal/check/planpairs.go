package check

import "strings"

func contains(text, part string) bool { return strings.Contains(text, part) }

// Pairs returns the runs that galley check plans tries: presets with fewer layers, so that tapes are built in
// seconds, on one device to two hosts. Memory is scarce on some, so that plans recompute and offload.
func Pairs() []Pair {
	var list []Pair
	add := func(layers, batch, seq int, cluster string, models ...string) {
		for _, m := range models {
			list = append(list, Pair{Model: m, Cluster: cluster, Layers: layers, Batch: batch, Seq: seq})
		}
	}
	const h100, a100, small = "H100-SXM ib=400G", "A100-SXM-40GB ib=200G", "A100-SXM-40GB mem=4GB ib=200G"
	add(2, 16, 2048, "1x4 "+h100, "llama-3.2-1b", "gpt3-350m", "qwen2.5-0.5b", "mixtral-8x7b")
	add(4, 16, 2048, "1x4 "+h100, "deepseek-v3")
	add(2, 16, 2048, "1x1 "+a100, "llama-3.2-1b", "gpt3-125m", "qwen2.5-1.5b")
	add(4, 16, 2048, "2x4 "+a100, "llama-2-7b", "llama-3-8b", "gpt3-1.3b", "qwen2.5-7b", "qwen3-8b",
		"mixtral-8x7b")
	add(2, 16, 4096, "2x2 "+h100, "llama-3-70b", "qwen2.5-72b", "mixtral-8x22b")
	add(2, 16, 4096, "2x4 "+h100, "kimi-k2") // two hosts of two devices lack the memory for its experts' state
	add(2, 16, 2048, "2x2 "+h100, "gpt3-175b", "llama-3-405b")
	add(4, 16, 2048, "1x2 "+small, "gpt3-350m", "gpt3-760m", "qwen2.5-0.5b")
	add(4, 16, 2048, "1x4 "+small, "gpt3-1.3b", "gpt3-2.7b", "gpt3-125m")
	add(4, 16, 2048, "2x4 "+small, "gpt3-350m", "gpt3-1.3b", "qwen2.5-0.5b", "qwen2.5-1.5b")
	// Its state, in transfer from the host to an update, does not fit 4 GB with 3 of driver and network.
	add(4, 16, 2048, "2x4 A100-SXM-40GB mem=5GB ib=200G", "gpt3-6.7b")
	add(2, 4, 32768, "1x4 "+h100, "llama-3-8b", "qwen2.5-7b", "qwen3-32b", "mixtral-8x7b")
	add(4, 8, 16384, "2x2 "+a100, "llama-3.2-1b", "llama-3-8b", "qwen2.5-3b")
	add(3, 12, 2048, "1x3 "+a100, "llama-2-7b", "gpt3-2.7b")
	for _, x := range []struct{ model, pin string }{
		{"llama-3-8b", "zero=3 shard=2"}, {"llama-3-8b", "zero=2 shard=4"},
		{"gpt3-1.3b", "zero=1 shard=4 tp=1 pp=1"},
		{"llama-3.2-1b", "offload.activations=1"},
		{"llama-3.2-1b", "offload.optimizer=0.5 offload.activations=0.5"},
		{"qwen2.5-1.5b", "pp=2 schedule=zbv"}, {"llama-3-8b", "cp=2 cp_kind=gather"}, {"mixtral-8x7b", "ep=4"},
		{"mixtral-8x7b", "tp=2 etp=2 ep=2"}, {"mixtral-8x7b", "tp=2 etp=1 ep=8"},
	} {
		list = append(list, Pair{Model: x.model, Cluster: "2x4 " + h100, Layers: 4, Batch: 16, Seq: 2048,
			Pin: x.pin})
	}
	return list
}
