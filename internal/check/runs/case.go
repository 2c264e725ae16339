package runs

import (
	"fmt"
	"math"
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// runCase is a published run in the planner's form.
type runCase struct {
	row      *runRow
	origin   string
	workload plan.Workload
	cluster  *cluster.Cluster
	strategy strategy.Strategy
	step     float64 // measured seconds; 0 where the row has none
	memory   float64 // measured bytes; 0 where the row has none
	assumed  []string
	open     open
	// broken means that the run could not start, however much memory there is.
	broken bool
	got    plan.Estimate
	plain  float64 // seconds predicted without constants
}

// newRunCase reads a row; the error explains why it cannot be predicted.
func newRunCase(r *runRow) (*runCase, error) {
	if r.wrong != nil {
		return nil, r.wrong
	}
	c := &runCase{row: r, origin: r.origin()}
	for _, f := range []func() error{c.readModel, c.readStrategy, c.readCluster, c.readMeasured} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	c.readPrecision()
	c.workload.Software = runSoftware(r)
	if err := c.workload.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

func notGiven(what string) error { return fmt.Errorf("%s not given", what) }

func (c *runCase) readModel() error {
	c.nameModel()
	m := &c.row.Model
	w := &c.workload.Model
	for _, f := range []struct {
		from *int
		to   *int
		name string
	}{{m.Layers, &w.Layers, "layers"}, {m.Hidden, &w.Hidden, "hidden size"}, {m.Heads, &w.Heads,
		"heads"}, {m.Seq, &c.workload.Seq, "sequence length"}} {
		if f.from == nil {
			return notGiven(f.name)
		}
		*f.to = *f.from
	}
	w.Name = m.Name
	w.KVHeads, w.HeadDim = value(m.KVHeads), value(m.HeadDim)
	w.Gated = !strings.Contains(strings.ToLower(m.MLP), "gelu") &&
		!strings.Contains(strings.ToLower(m.MLP), "relu")
	if err := c.readWidths(); err != nil {
		return err
	}
	if m.MoE != nil && m.MoE.Experts > 0 {
		c.readExperts()
	}
	w.Window = value(m.Window)
	if m.KVRank == nil && m.Attention == "MLA" {
		return notGiven("ranks of latent attention")
	}
	if m.KVRank != nil {
		w.Latent = plan.Latent{QRank: value(m.QRank), KVRank: *m.KVRank, Nope: value(m.Nope), Rope: value(m.Rope),
			V: value(m.VDim)}
		w.KVHeads, w.HeadDim = 0, 0
	}
	if !w.Gated && (w.KVHeads == 0 || w.KVHeads == w.Heads) { // models of that time
		w.LayerNorm, w.Bias, w.Tied, w.Positions = true, true, true, c.workload.Seq
	}
	w.Tied = w.Tied || m.Tied
	return nil
}

// readWidths uses the usual width of a feed-forward layer and a usual vocabulary if the row has none.
func (c *runCase) readWidths() error {
	m, w := &c.row.Model, &c.workload.Model
	w.FFN, w.Vocab = value(m.FFN), value(m.Vocab)
	if w.FFN == 0 {
		w.FFN = 4 * w.Hidden
		if w.Gated {
			w.FFN = (8*w.Hidden/3 + 255) / 256 * 256
		}
		c.assumed = append(c.assumed, "ffn")
	}
	if w.Vocab == 0 {
		w.Vocab = 51200
		c.assumed = append(c.assumed, "vocabulary")
	}
	return nil
}

func (c *runCase) readExperts() {
	m, w := c.row.Model.MoE, &c.workload.Model
	width := value(m.FFN)
	if width == 0 {
		width = w.FFN
	}
	shared := value(m.SharedFFN)
	if shared == 0 {
		shared = m.Shared * width
	}
	w.Experts = plan.Experts{Count: m.Experts, TopK: max(1, m.TopK), FFN: width, Shared: shared,
		Dense: m.DenseLayers}
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func (c *runCase) readStrategy() error {
	r := &c.row.Strategy
	s := &c.strategy
	for _, f := range []struct {
		from *int
		to   *int
		name string
	}{{r.DP, &s.DP, "data parallelism"}, {r.TP, &s.TP, "tensor parallelism"}, {r.PP, &s.PP,
		"pipeline parallelism"}} {
		if f.from != nil {
			if *f.from < 0 {
				return fmt.Errorf("%s %d: want 1 or more", f.name, *f.from)
			}
			*f.to = max(1, *f.from) // 0 means that this parallelism is not used
		}
		if missing := f.from == nil; missing && !c.divides(f.to) {
			return notGiven(f.name)
		}
	}
	s.CP, s.EP, s.ETP, s.VPP, s.Shard = max(1, value(r.CP)), max(1, value(r.EP)), max(1, value(r.ETP)), max(1,
		value(r.VPP)), max(int(r.Shard), value(r.FSDP))
	s.Sequence = r.SP != nil && *r.SP
	c.readContext()
	c.usualParallel()
	if err := c.readBatch(); err != nil {
		return err
	}
	if r.Offload {
		s.Offload.Activations = 1
	}
	c.open.recompute = r.Recompute == nil
	if r.Recompute != nil {
		c.readRecompute(*r.Recompute)
	}
	c.readZero()
	s.Layers = c.partition(s)
	return nil
}

// readBatch requires whole micro-batches.
func (c *runCase) readBatch() error {
	r, s := &c.row.Strategy, &c.strategy
	batch := r.Batch
	if batch == nil {
		batch = c.summedBatch()
	}
	if batch == nil {
		batch = c.usualBatch()
	}
	if batch == nil || *batch < 1 || s.DP < 1 {
		return notGiven("global batch")
	}
	micro := c.usualMicro(int(*batch) / s.DP)
	if micro < 1 || micro != math.Trunc(micro) || *batch != math.Trunc(*batch) {
		return fmt.Errorf("a batch that is no whole number: micro-batch %g, global batch %g", micro, *batch)
	}
	s.MicroBatch, c.workload.Batch = int(micro), int(*batch)
	if s.Micros(c.workload.Batch) == 0 && !c.roundBatch() {
		return fmt.Errorf("batch %d is not a multiple of dp %d times micro-batch %d", c.workload.Batch, s.DP,
			s.MicroBatch)
	}
	return nil
}

// readZero assumes what was usual if a row does not specify it.
func (c *runCase) readZero() {
	r, s := &c.row.Strategy, &c.strategy
	if r.Zero != nil {
		s.Zero = *r.Zero
	} else {
		c.usualZero()
		c.assumed = append(c.assumed, fmt.Sprintf("zero %d", s.Zero))
	}
	if s.Shard > 0 && (s.DP*s.CP)%s.Shard != 0 {
		s.Shard = 0
	}
}

func (c *runCase) readMeasured() error {
	m := &c.row.Measured
	tokens := c.workload.Tokens()
	switch {
	case m.Step != nil && *m.Step > 0:
		c.step = *m.Step
	case m.Tokens != nil && *m.Tokens > 0:
		c.step = tokens / *m.Tokens
	case m.PerGPU != nil && *m.PerGPU > 0:
		c.step = tokens / (*m.PerGPU * float64(c.cluster.Size()))
	case m.Samples != nil && *m.Samples > 0:
		c.step = float64(c.workload.Batch) / *m.Samples
	default:
		c.step = c.rated()
	}
	c.memory = m.bytes()
	_, said := m.failed()
	if c.step == 0 && c.memory == 0 && !said {
		return notGiven("step time, throughput and memory")
	}
	return nil
}
