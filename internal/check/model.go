package check

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// ModelConfig describes how a model is checked.
type ModelConfig struct {
	Device *galley.Device
	Mode   galley.Mode
	// Strategy, if set, distributes training over devices.
	Strategy *galley.Strategy
	// Plan, if set, is a file of galley plan with the strategy.
	Plan string
	// Backend, if set, computes logits, gradients and training instead of Device, which still
	// generates.
	Backend galley.Backend
	// DTypes to run in; none means f32 and f64. bf16 is f32 parameters with products in bf16.
	DTypes  []array.DType
	Verbose bool
}

// modelTolerance is the absolute error allowed: the references were recorded in f32. In bf16 a larger one is
// allowed.
const (
	modelTolerance = 2e-4
	halfTolerance  = 2e-2
)

// halfNorm is the factor by which gradient norms may then differ more than losses.
const halfNorm = 2.5

// modelReference is reference.json.
type modelReference struct {
	Loss0     float64            `json:"loss0"`
	GradNorms map[string]float64 `json:"grad_norms"`
	Optimizer struct {
		Name        string     `json:"name"`
		LR          float64    `json:"lr"`
		Betas       [2]float64 `json:"betas"`
		Eps         float64    `json:"eps"`
		WeightDecay float64    `json:"weight_decay"`
		ClipNorm    float64    `json:"clip_norm"`
		DecayAll    bool       `json:"decay_all"`
	} `json:"optimizer"`
	Losses    []float64 `json:"losses"`
	ClipNorms []float64 `json:"clip_norms"`
	Greedy    *struct {
		Prompt []int32 `json:"prompt"`
		Tokens []int32 `json:"tokens"`
	} `json:"greedy_after_training"`
}

// Model loads a Hugging Face directory and repeats its recorded training: it compares the first logits and
// gradients, every loss and gradient norm, and the greedy continuation afterwards.
func Model(w io.Writer, dir string, c ModelConfig) (*report.Report, error) {
	m := &modelCheck{c: c, dir: dir, r: report.New(w, c.Verbose)}
	var err error
	if m.ref, m.file, err = openReference(dir); err != nil {
		return nil, err
	}
	defer m.file.Close()
	dtypes := c.DTypes
	if len(dtypes) == 0 {
		dtypes = []array.DType{array.F64, array.F32} // f64 first: it shows how far the recorded f32 is from exact
	}
	if m.half() {
		dtypes = []array.DType{array.F32}
	}
	for _, dtype := range dtypes {
		if err := m.run(dtype); err != nil {
			return nil, err
		}
	}
	m.r.Last()
	return m.r, nil
}

// openReference reads the recorded training of a model.
func openReference(dir string) (ref modelReference, file *safetensors.File, err error) {
	path := filepath.Join(dir, "reference.json")
	text, err := strict.ReadFile(path, strict.Data)
	if err != nil {
		return ref, nil, err
	}
	if err := json.Unmarshal(text, &ref); err != nil {
		return ref, nil, fmt.Errorf("%s: %w", path, err)
	}
	if o := ref.Optimizer; o.Name != "AdamW" || !o.DecayAll {
		return ref, nil, fmt.Errorf("%s: optimizer %q: want AdamW that decays all", path, o.Name)
	}
	file, err = safetensors.Open(filepath.Join(dir, "reference.safetensors"))
	return ref, file, err
}

type modelCheck struct {
	c     ModelConfig
	dir   string
	ref   modelReference
	file  *safetensors.File
	r     *report.Report
	model models.Model
	batches
	// exact is the gradient norms of the f64 run.
	exact []float64
	// dtype is that of the parameters, compute that of products if different, limit the error allowed.
	dtype, compute array.DType
	limit          float64
}

// half reports whether the strategy trains in 16 bits.
func (m *modelCheck) half() bool {
	s := m.c.Strategy
	return s != nil && s.AMP != "" && s.AMP != "off"
}

func (m *modelCheck) run(dtype array.DType) (err error) {
	m.dtype, m.compute, m.limit = dtype, array.Invalid, modelTolerance
	if dtype.IsHalf() {
		m.dtype, m.compute, m.limit = array.F32, dtype, halfTolerance
	}
	if m.batches, err = readBatches(m.file, len(m.ref.Losses)); err != nil {
		return err
	}
	s := m.c.Device.NewSession()
	if m.model, err = models.Load(m.dir, nn.Config{Scope: s, DType: m.dtype}); err != nil {
		return err
	}
	if err := m.within(m.model.Config()); err != nil {
		return err
	}
	if m.compute == array.Invalid {
		if err := m.first(s); err != nil {
			return err
		}
	}
	if err := m.train(); err != nil {
		return err
	}
	if m.compute != array.Invalid {
		return nil // words may differ if two were almost equally likely
	}
	return m.greedy()
}

// first compares logits, loss and gradients before any update.
func (m *modelCheck) first(s *galley.Session) error {
	logits, loss, grads, err := m.compute0(s)
	if err != nil {
		return err
	}
	want, err := m.file.Read("logits0")
	if err != nil {
		return err
	}
	m.near("logits0", maxDifference(logits, want), m.limit)
	m.near("loss0", math.Abs(loss.At(0)-m.ref.Loss0), m.limit)
	return m.gradients(m.model.Params(), grads)
}

func (m *modelCheck) gradients(params []*nn.Param, grads []array.Array) error {
	seen := map[string]bool{}
	for i, p := range params {
		g := grads[i]
		if p.Fixed {
			continue
		}
		seen[p.Name] = true
		want, ok := m.ref.GradNorms[p.Name]
		if !ok {
			m.r.Add(m.label("gradient of "+p.Name), []string{"the reference has none of this name"}, "")
			continue
		}
		m.near("norm of gradient of "+p.Name, math.Abs(norm(g)-want), m.limit)
		if _, _, ok := m.file.Type("grad0." + p.Name); ok {
			recorded, err := m.file.Read("grad0." + p.Name)
			if err != nil {
				return err
			}
			m.near("gradient of "+p.Name, maxDifference(g, recorded), m.limit)
		}
	}
	for _, name := range sortedKeys(m.ref.GradNorms) {
		if !seen[name] {
			m.r.Add(m.label("gradient of "+name), []string{"the model has no parameter of this name"}, "")
		}
	}
	return nil
}

func sortedKeys(m map[string]float64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func norm(a array.Array) float64 {
	s := 0.0
	for i := range a.Len() {
		s += a.At(i) * a.At(i)
	}
	return math.Sqrt(s)
}

func maxDifference(got, want array.Array) float64 {
	if !got.Shape().Equal(want.Shape()) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range want.Len() {
		if d := math.Abs(got.At(i) - want.At(i)); d > worst || d != d {
			worst = d
		}
	}
	return worst
}

// train repeats the recorded steps.
func (m *modelCheck) train() error {
	o := m.ref.Optimizer
	if m.c.Plan != "" {
		in := m.inputs.Shape()
		s, err := galley.PlanFile(m.c.Plan, galley.AutoConfig{Model: m.model.Config(), Batch: in[1], Seq: in[2]})
		if err != nil {
			return err
		}
		m.c.Strategy = &s
	}
	if m.half() {
		m.limit = halfTolerance
	}
	model := m.model
	if m.c.Strategy != nil {
		var notes []string
		var err error
		if model, notes, err = galley.Arrange(m.model, *m.c.Strategy, m.seq()); err != nil {
			return err
		}
		for _, n := range notes {
			m.r.Note(n)
		}
	}
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: m.c.Device, Backend: m.c.Backend, Compute: m.compute, Params: m.model.Params(), Mode: m.c.Mode,
		Loss:      func(batch []*op.Tensor) *op.Tensor { return model.Loss(batch[0], batch[1]) },
		Optimizer: optim.AdamW{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.WeightDecay},
		Schedule:  optim.Constant{LR: o.LR}, ClipNorm: o.ClipNorm, Strategy: m.c.Strategy,
	})
	if err != nil {
		return err
	}
	defer t.Close()
	for i, want := range m.ref.Losses {
		got, err := t.Step(m.at(i)...)
		if err != nil {
			return err
		}
		m.near(fmt.Sprintf("loss %d", i), math.Abs(got.Loss-want), m.limit)
		if i < len(m.ref.ClipNorms) {
			m.norm(i, got.GradNorm)
		}
	}
	return t.Sync(m.c.Device.NewSession())
}

// norm compares a gradient norm. The recorded ones are f32 themselves and may be further from exact than
// another f32 run: one weight whose gradient is almost zero can make the difference. So an f32 norm passes if
// it is close to the recorded or to the f64 one.
func (m *modelCheck) norm(step int, got float64) {
	e := math.Abs(got - m.ref.ClipNorms[step])
	if m.dtype == array.F64 {
		m.exact = append(m.exact, got)
	} else if step < len(m.exact) {
		e = min(e, math.Abs(got-m.exact[step]))
	}
	limit := m.limit
	if limit == halfTolerance {
		limit *= halfNorm
	}
	m.near(fmt.Sprintf("gradient norm %d", step), e, limit)
}

// greedy continues the recorded prompt with the most likely tokens.
func (m *modelCheck) greedy() error {
	g := m.ref.Greedy
	if g == nil {
		return nil
	}
	if m.limit == halfTolerance {
		m.r.Note("the greedy continuation is not compared: after training in 16 bits near ties fall otherwise")
		return nil
	}
	got := slices.Clone(g.Prompt)
	for token, err := range models.Generate(m.model, g.Prompt,
		models.GenerateConfig{Tokens: len(g.Tokens) - len(g.Prompt)}) {
		if err != nil {
			return err
		}
		got = append(got, token)
	}
	var faults []string
	if !slices.Equal(got, g.Tokens) {
		faults = []string{fmt.Sprintf("got %v, want %v", got, g.Tokens)}
	}
	m.r.Add(m.label("greedy continuation"), faults, "")
	return nil
}

func (m *modelCheck) label(what string) string {
	if m.compute != array.Invalid {
		return fmt.Sprintf("%v %s", m.compute, what)
	}
	return fmt.Sprintf("%v %s", m.dtype, what)
}

func (m *modelCheck) near(what string, e, limit float64) {
	var faults []string
	if !(e <= limit) {
		faults = []string{fmt.Sprintf("differs by %.3g, want ≤ %.0e", e, limit)}
	}
	m.r.Add(m.label(what), faults, fmt.Sprintf("%.1e", e))
}
