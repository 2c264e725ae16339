package plan

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/cluster"
)

// Kind is what runs share that makes them slower or faster than micro-benchmarks say, all alike.
type Kind struct {
	// Era is the software's: classic (before attention was fused), modern (fused kernels), eager (PyTorch's own
	// kernels, op by op), compiled (a compiler sees the whole step); empty where nobody knows.
	Era string `json:"era"`
	// Device is the first word of the devices' names.
	Device string `json:"device"`
	// Short is whether products run in 8 bits or less, Sparse whether layers have experts.
	Short  bool `json:"short,omitempty"`
	Sparse bool `json:"sparse,omitempty"`
}

// KindOf returns the kind of a run of a workload on devices of a name.
func KindOf(w *Workload, device string) Kind {
	word, _, _ := strings.Cut(device, "-")
	k := Kind{Era: "modern", Device: word, Short: w.Short(), Sparse: w.Model.MoE()}
	if w.Software.Unfused {
		k.Era = "classic"
	}
	return k
}

// Residual summarizes measured over predicted step times of the runs of one source and kind.
type Residual struct {
	Source string `json:"source"`
	Kind
	Rows int `json:"rows"`
	// Log is the middle of the logarithms of measured over predicted time, Scatter how far runs are
	// from it.
	Log     float64 `json:"log"`
	Scatter float64 `json:"scatter"`
}

// seenFile is what galley check runs --seen writes of all published runs that are stored with the project.
//
//go:embed seen.json
var seenFile []byte

var storedResiduals = sync.OnceValue(func() []Residual {
	var s []Residual
	if err := json.Unmarshal(seenFile, &s); err != nil {
		panic("plan: seen.json: " + err.Error())
	}
	return s
})

// StoredResiduals returns what published runs showed.
func StoredResiduals() []Residual { return storedResiduals() }

var storedPool = sync.OnceValue(func() *Pool { return NewPool(storedResiduals()) })

// Default returns the best calibration that is known for a cluster and a workload without measuring it:
// published micro-benchmarks, with what published runs of its kind say about those.
func Default(c *cluster.Cluster, w Workload) Calibration {
	cal := Published()
	cal.Level = 2
	for _, g := range c.Groups {
		// Of a mixed cluster the slower device counts: others wait for it.
		e := storedPool().Expect(KindOf(&w, g.Device.Name))
		cal.Constants.Compute = max(cal.Constants.Compute, e.Factor)
		cal.Constants.Communication = cal.Constants.Compute
		cal.Spread = max(cal.Spread, e.Spread)
	}
	return cal
}
