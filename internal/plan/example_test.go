package plan_test

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

func ExampleEstimator_Estimate() {
	m, err := plan.ModelPreset("llama-3-70b")
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cluster.Parse("8x8 H100-SXM ib=400G")
	if err != nil {
		fmt.Println(err)
		return
	}
	w := plan.Workload{Model: m, Batch: 128, Seq: 8192}
	e, err := plan.NewEstimator(w, c, plan.Default(c, w))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []string{"dp=2 tp=8 pp=4 micro_batch=1 zero=1 sp",
		"dp=64 tp=1 pp=1 micro_batch=1 zero=3 recompute=full"} {
		s, err := strategy.Parse(line)
		if err != nil {
			fmt.Println(err)
			return
		}
		got, err := e.Estimate(s)
		fmt.Printf("%s: %.0f s, MFU %.0f%%, %.0f GiB of 80, %v\n", s.Line(), got.Step, 100*got.MFU,
			got.Memory.Total()/(1<<30), err)
	}
	// Output:
	// dp=2 tp=8 pp=4 micro_batch=1 zero=1 sp: 18 s, MFU 45%, 50 GiB of 80, <nil>
	// dp=64 tp=1 pp=1 micro_batch=1 zero=3 recompute=full: 15 s, MFU 52%, 42 GiB of 80, <nil>
}
