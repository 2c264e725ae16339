package plan

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/cluster"
)

// Kind is the class of a run: properties that make all runs which share them slower or faster than
// micro-benchmarks suggest.
type Kind struct {
	// Era is that of the software: classic (before fused attention), modern (fused kernels), eager (PyTorch's
	// own kernels, op by op), compiled (a compiler optimizes the whole step); empty if unknown.
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
	// Log is the median logarithm of measured over predicted time, Scatter the standard deviation around it.
	Log     float64 `json:"log"`
	Scatter float64 `json:"scatter"`
}

// seenFile is what galley check runs --seen writes for all published runs that are stored with the project.
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

// StoredResiduals returns the residuals of published runs.
func StoredResiduals() []Residual { return storedResiduals() }

var storedPool = sync.OnceValue(func() *Pool { return NewPool(storedResiduals()) })

// Default returns the best known calibration for a cluster and a workload without measuring it: published
// micro-benchmarks, corrected by published runs of the same kind. Of cores nothing was published.
func Default(c *cluster.Cluster, w Workload) Calibration {
	if c.Groups[0].Device.IsCPU() {
		return Calibration{Source: "usual cores"}
	}
	cal := Published()
	cal.Level = 2
	for _, g := range c.Groups {
		// In a mixed cluster the slower device counts, because others wait for it.
		e := storedPool().Expect(KindOf(&w, g.Device.Name))
		cal.Constants.Compute = max(cal.Constants.Compute, e.Factor)
		cal.Constants.Communication = cal.Constants.Compute
		cal.Spread = max(cal.Spread, e.Spread)
	}
	return cal
}
