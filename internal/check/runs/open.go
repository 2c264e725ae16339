package runs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// What rows do not specify and what is assumed instead: the published model of that name, or the framework's
// defaults. All of it is printed as assumed.

func (c *runCase) assume(format string, args ...any) {
	c.assumed = append(c.assumed, fmt.Sprintf(format, args...))
}

// nameModel fills in what a row does not specify about a well-known model of the same name and width.
func (c *runCase) nameModel() {
	m := &c.row.Model
	known, err := plan.ModelPreset(m.Name)
	if err != nil || m.Hidden == nil || *m.Hidden != known.Hidden {
		return
	}
	if m.Vocab == nil {
		m.Vocab = &known.Vocab
		c.assume("vocabulary of %s", known.Name)
	}
	if l := &known.Latent; m.KVRank == nil && known.MLA() {
		m.QRank, m.KVRank, m.Nope, m.Rope, m.VDim = &l.QRank, &l.KVRank, &l.Nope, &l.Rope, &l.V
		c.assume("latent attention of %s", known.Name)
	}
}

// divides sets a degree of parallelism that a row does not specify from its devices and the other degrees, if
// only one is missing.
func (c *runCase) divides(degree *int) bool {
	r := &c.row.Strategy
	missing, others := 0, max(1, value(r.CP))
	for _, d := range []*int{r.DP, r.TP, r.PP} {
		if d == nil {
			missing++
		} else {
			others *= max(1, *d)
		}
	}
	n := value(c.row.Cluster.GPUs)
	if missing != 1 || n < 1 || n%others != 0 {
		return false
	}
	*degree = n / others
	c.assume("a degree of parallelism from the others")
	return true
}

// usualMicro returns the micro-batch of a row, given the sequences of a replica in a step. MaxText runs them
// at once: its rows are per chip. torchtitan splits into as many parts as the pipeline has stages. Otherwise
// it is searched for, from one sequence on.
func (c *runCase) usualMicro(perReplica int) float64 {
	f, micro := strings.ToLower(c.row.Framework), 1
	switch given := c.row.Strategy.Micro; {
	case strings.Contains(f, "maxtext"):
		return float64(perReplica)
	case given != nil:
		return *given
	case c.row.Strategy.Accum != nil && *c.row.Strategy.Accum >= 1:
		micro = max(1, perReplica/int(*c.row.Strategy.Accum))
		c.assume("micro-batch %d", micro)
	case strings.Contains(f, "torchtitan"):
		micro = max(1, perReplica/max(1, c.strategy.PP))
		c.assume("micro-batch %d", micro)
	default:
		c.open.micro = true
	}
	return float64(micro)
}

// roundBatch uses the nearest batch that divides evenly, if it is close.
func (c *runCase) roundBatch() bool {
	batch, unit := c.workload.Batch, c.strategy.DP*c.strategy.MicroBatch
	near := (batch + unit/2) / unit * unit
	if near == 0 || 20*max(near-batch, batch-near) > batch {
		return false
	}
	c.workload.Batch = near
	c.assume("batch %d for %d", near, batch)
	return true
}

// summedBatch returns the batch of steps with gradient accumulation over a number of micro-batches.
func (c *runCase) summedBatch() *float64 {
	r := &c.row.Strategy
	if r.Accum == nil || r.Micro == nil || *r.Accum < 1 {
		return nil
	}
	n := *r.Accum * *r.Micro * float64(c.strategy.DP)
	c.assume("batch %g", n)
	return &n
}

// noted matches a number that notes name as the framework's default.
var noted = regexp.MustCompile(`default (\d+)`)

// usualBatch returns the batch of a row that has only a throughput, if its notes name the framework's
// default.
func (c *runCase) usualBatch() *float64 {
	m := noted.FindStringSubmatch(c.row.Notes)
	if m == nil || c.row.Measured.Step != nil {
		return nil
	}
	n := float64(*number(m[1]))
	c.assume("batch %g", n)
	return &n
}

// sequenceYear is the year from which Megatron had sequence parallelism.
const sequenceYear = 2022

// usualParallel fills in a framework's defaults: modern ones use sequence parallelism with tensor
// parallelism; torchtitan's interleaved schedule has two chunks a rank.
func (c *runCase) usualParallel() {
	r, s := &c.row.Strategy, &c.strategy
	modern := era(c.row) == "modern"
	switch {
	case r.SP != nil || s.TP == 1:
	case modern:
		s.Sequence = true
		c.assume("sp")
	case era(c.row) == "classic" && c.row.year() >= sequenceYear:
		c.open.sequence = true
	}
	if r.VPP == nil && s.PP > 1 && strings.Contains(strings.ToLower(c.row.Framework), "torchtitan") {
		if strings.Contains(strings.ToLower(c.row.Notes+r.Schedule), "interleaved") {
			s.VPP = 2
		}
		c.assume("vpp %d", s.VPP)
		return
	}
	c.readSchedule()
}

// usualZero sets the ZeRO stage that a system's name implies: PyTorch's FSDP is the third, modern frameworks
// shard the optimizer, and so did pipelines with DeepSpeed.
func (c *runCase) usualZero() {
	f := strings.ToLower(c.row.Framework)
	stage, shard := zeroStage(f)
	switch {
	case containsAny(f, []string{"zero", "fsdp", "hsdp"}) && stage >= 0:
		c.strategy.Zero = stage
		if shard && c.strategy.Shard == 0 {
			c.strategy.Shard = value(c.row.Cluster.PerNode)
		}
	case containsAny(f, []string{"torchtitan", "composer", "llm-foundry", "maxtext"}):
		c.strategy.Zero = 3
	case era(c.row) == "modern", strings.Contains(f, "deepspeed"):
		c.strategy.Zero = 1
	}
}

// readContext sets the kind of context parallelism: how split sequences exchange what attention needs.
func (c *runCase) readContext() {
	said := strings.ToLower(c.row.Strategy.Context)
	if said == "" && c.strategy.CP > 1 {
		said = strings.ToLower(c.row.Framework + " " + c.row.Notes)
	}
	for word, kind := range map[string]string{"ulysses": "ulysses", "a2a": "ulysses", "gather": "gather"} {
		if strings.Contains(said, word) && (kind != "gather" || c.row.Strategy.Context != "") {
			c.strategy.Context = kind
			return
		}
	}
	if said != "" && c.row.Strategy.Context != "" && !containsAny(said, []string{"ring", "p2p"}) {
		c.assume("context parallelism %q is a ring", c.row.Strategy.Context)
	}
}

// memoryDoubt is how far above a device's memory a prediction may be for a run that succeeded: about the
// error of predictions.
const memoryDoubt = 1.12

// rated returns the step time of a row that has operations a second, or a share of the peak (MFU), instead of
// a time. They are counted as in papers: the model's own, or those of the hardware, which are a third more
// with full recomputation.
func (c *runCase) rated() float64 {
	m, w := &c.row.Measured, &c.workload
	flops := w.Model.FlopsPerToken(w.Seq) * w.Tokens()
	rate, kind := 1e12*number64(m.TFLOPS), strings.ToLower(m.Kind)
	if rate <= 0 {
		rate, kind = number64(m.MFU)*c.peak(), "model"
	}
	if rate <= 0 {
		rate, kind = number64(m.HFU)*c.peak(), "hardware"
	}
	switch {
	case strings.HasPrefix(kind, "hardware"), strings.HasPrefix(kind, "hfu"):
		if c.strategy.Recompute.Mode() == strategy.Full {
			flops *= 4.0 / 3
		}
	case kind != "" && !strings.HasPrefix(kind, "model") && !strings.HasPrefix(kind, "mfu"):
		return 0
	}
	if rate <= 0 {
		return 0
	}
	c.assume("time from TFLOP/s, attention to all keys counted")
	return flops / (rate * float64(c.cluster.Size()))
}

// peak returns the rate of a device that a source's share of the peak refers to: in 16 bits, as most count.
func (c *runCase) peak() float64 {
	if p := number64(c.row.Cluster.Peak); p > 0 {
		return p * 1e12
	}
	r, _ := c.cluster.Groups[0].Device.Rate("bf16")
	return r.Peak
}

func number64(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}
