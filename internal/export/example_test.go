package export_test

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

func ExampleWrite() {
	m, _ := plan.ModelPreset("llama-3-8b")
	c, _ := cluster.Parse("1x8 H100-SXM")
	text, err := export.Write("torchtitan", plan.Workload{Model: m, Batch: 64, Seq: 8192},
		strategy.Strategy{DP: 8, MicroBatch: 1, Zero: 3}, c)
	fmt.Print(text, err)
	// Output:
	// [model]
	// name = "llama3"
	// flavor = "8B"
	//
	// [training]
	// seq_len = 8192
	// local_batch_size = 1
	// global_batch_size = 64
	// mixed_precision_param = "bfloat16"
	//
	// [parallelism]
	// data_parallel_replicate_degree = 1
	// data_parallel_shard_degree = 8
	// fsdp_reshard_after_forward = "always"
	// tensor_parallel_degree = 1
	// context_parallel_degree = 1
	// pipeline_parallel_degree = 1
	//
	// [activation_checkpoint]
	// mode = "none"
	// <nil>
}
