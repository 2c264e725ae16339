package plan

import (
	_ "embed"
	"encoding/json"
	"slices"
	"sync"
)

// benchmarkFile holds published micro-benchmarks by device: products as [m, n, k, groups, part of the peak],
// attention as [batch, sequence, heads, key heads, head, value, forward, backward], parts of the peak by the
// operations of attention to all keys. SimuMax measured A100-PCIe and B200 (configs/system of its
// repository), LLMCompass the products of A100-SXM; fused is the part of the peak that fused attention of any
// shape reaches.
//
//go:embed benchmarks.json
var benchmarkFile []byte

var published = sync.OnceValue(func() Calibration {
	var file map[string]struct {
		Source    string
		Fused     float64
		FusedGrad float64 `json:"fused_grad"`
		Products  [][5]float64
		Attention [][8]float64
	}
	if err := json.Unmarshal(benchmarkFile, &file); err != nil {
		panic("plan: benchmarks.json: " + err.Error())
	}
	c := Calibration{Level: 1, Source: "published micro-benchmarks"}
	var names []string
	for n := range file {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		k := Curve{Device: n, Fused: file[n].Fused, FusedGrad: file[n].FusedGrad}
		for _, p := range file[n].Products {
			k.Products = append(k.Products, Product{M: int(p[0]), N: int(p[1]), K: int(p[2]), Groups: int(p[3]),
				Efficiency: p[4]})
		}
		for _, a := range file[n].Attention {
			k.Attention = append(k.Attention, Attention{Batch: int(a[0]), Seq: int(a[1]), Heads: int(a[2]),
				KVHeads: int(a[3]), Dim: int(a[4]), Value: int(a[5]), Forward: a[6] / 2, Backward: a[7] / 2})
		}
		c.Devices = append(c.Devices, k)
	}
	return c
})

// Published returns a level-1 calibration from published micro-benchmarks.
func Published() Calibration { return published() }

// Measured reports whether enough micro-benchmarks of a device have been published to level a curve.
func Measured(device string) bool {
	for _, c := range published().Devices {
		if c.Device == device {
			return len(c.Products) >= levelProducts
		}
	}
	return false
}
