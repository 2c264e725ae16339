package nn

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Param is a named tensor of a model, usually trained.
type Param struct {
	Name string
	Type op.Type
	// Value is the tensor that layers compute with: an eager tensor, or a traced one while a program is built
	// (see Bind). In a model created without a scope it is nil until one is bound.
	Value *op.Tensor
	// Fixed marks a parameter that is stored in checkpoints but not trained.
	Fixed bool
	// Buffer marks a tensor that layers, not the optimizer, update in training: see Init.Buffer.
	Buffer bool
	// mode is that of its model; nil in a parameter that was made by hand.
	mode *mode
	// first computes the initial value from the random numbers of key; nil if the value is loaded.
	first Initializer
	key   op.Key
}

// Like returns another parameter of the same model, without a value.
func (p *Param) Like(name string, t op.Type) *Param { return &Param{Name: name, Type: t, mode: p.mode} }

// Grad returns the gradient that Backward has accumulated since the last ClearGrad; nil if there is none.
func (p *Param) Grad() *op.Tensor {
	if p.Value == nil {
		return nil
	}
	return p.Value.Grad()
}

// ClearGrad drops the parameter's gradient.
func (p *Param) ClearGrad() {
	if p.Value != nil {
		p.Value.ClearGrad()
	}
}

// Config says how parameters are initialised.
type Config struct {
	// Scope creates the values. With nil the model has only shapes, for tracing and planning, and for
	// trainers on many devices: each device then initialises its own shards, and no process ever holds the
	// whole model.
	Scope op.Scope
	// DType is the parameters' dtype; the zero value is F32.
	DType array.DType
	// Seed and a parameter's name determine its initial value.
	Seed uint64
	// Load, if set, returns a parameter's value in place of its initializer; nil leaves only its shape.
	Load func(name string, t op.Type) (*op.Tensor, error)
	// Frozen parameters record no gradients: for inference.
	Frozen bool
}

// Init creates a model's parameters and collects them. At returns a view with a longer name prefix.
type Init struct {
	*list
	prefix string
	std    float64
	// matrices, if not nil, is the initializer of matrices.
	matrices Initializer
}

// list holds what all views of an Init share.
type list struct {
	config Config
	params []*Param
	names  map[string]bool
	mode   mode
	err    error
	// adaptable holds the layers that adapters can update.
	adaptable []Adaptable
}

// NewInit starts a model without parameters.
func NewInit(c Config) *Init {
	if c.DType == array.Invalid {
		c.DType = array.F32
	}
	return &Init{list: &list{config: c, names: map[string]bool{}}}
}

// At returns the same model with a name appended to the prefix.
func (in *Init) At(name string) *Init {
	return &Init{list: in.list, prefix: in.prefix + name + ".", std: in.std, matrices: in.matrices}
}

// WithNormal returns the same model with weight matrices initialised from a normal distribution and zero
// biases, as in Hugging Face models, instead of the layers' defaults.
func (in *Init) WithNormal(std float64) *Init {
	return &Init{list: in.list, prefix: in.prefix, std: std}
}

// WithWeights returns the same model with weight matrices initialised by first.
func (in *Init) WithWeights(first Initializer) *Init {
	return &Init{list: in.list, prefix: in.prefix, std: in.std, matrices: first}
}

// weights returns the initializer of a matrix with from inputs.
func (in *Init) weights(from int) Initializer {
	if in.matrices != nil {
		return in.matrices
	}
	if in.std > 0 {
		return Normal(in.std)
	}
	return Uniform(1 / math.Sqrt(float64(max(from, 1))))
}

// biases returns the initializer of the bias of such a matrix.
func (in *Init) biases(from int) Initializer {
	if in.std > 0 {
		return Constant(0)
	}
	return in.weights(from)
}

// Index is like At with the index of a layer in a list.
func (in *Init) Index(i int) *Init { return in.At(strconv.Itoa(i)) }

// DType returns the dtype of the model's parameters.
func (in *Init) DType() array.DType { return in.config.DType }

// Params returns all parameters made so far, in order.
func (in *Init) Params() []*Param { return in.params }

// Adaptable returns the layers created so far that an Adapter can update, in order.
func (in *Init) Adaptable() []Adaptable { return in.adaptable }

// Err returns the first error: a name used twice, or a value that could not be loaded.
func (in *Init) Err() error { return in.err }

// Param creates a parameter.
func (in *Init) Param(name string, shape array.Shape, first Initializer) *Param {
	p := &Param{Name: in.prefix + name, Type: op.Type{DType: in.config.DType, Shape: shape}, mode: &in.mode}
	if in.names[p.Name] && in.err == nil {
		in.err = fmt.Errorf("parameter %q is made twice", p.Name)
	}
	in.names[p.Name] = true
	in.params = append(in.params, p)
	if in.config.Load == nil {
		p.first, p.key = first, keyOf(in.config.Seed, p.Name)
	}
	if in.err == nil {
		in.err = in.fill(p, first)
	}
	return p
}

// Fixed creates a parameter that is not trained.
func (in *Init) Fixed(name string, shape array.Shape, first Initializer) *Param {
	p := in.Param(name, shape, first)
	p.Fixed = true
	return p
}

func (in *Init) fill(p *Param, first Initializer) error {
	if in.config.Load != nil {
		v, err := in.config.Load(p.Name, p.Type)
		if err != nil || v == nil {
			return err
		}
		return in.set(p, v)
	}
	if in.config.Scope != nil {
		return in.set(p, first(in.config.Scope, p.key, p.Type))
	}
	return nil
}

func (in *Init) set(p *Param, v *op.Tensor) error {
	if v.Err() != nil {
		return v.Err()
	}
	if !v.Type().Equal(p.Type) {
		return fmt.Errorf("parameter %q: got %v, want %v", p.Name, v.Type(), p.Type)
	}
	p.Value = v.Detach()
	if !in.config.Frozen {
		p.Value = p.Value.Track()
	}
	return nil
}

// keyOf returns the stream of random numbers for a name.
func keyOf(seed uint64, name string) op.Key {
	h := fnv.New64a()
	h.Write([]byte(name))
	return op.Key{Seed: seed, Stream: h.Sum64()}
}

// Initializer computes a parameter's initial value.
type Initializer func(s op.Scope, key op.Key, t op.Type) *op.Tensor

// Normal draws from a normal distribution around zero.
func Normal(std float64) Initializer {
	return func(s op.Scope, key op.Key, t op.Type) *op.Tensor {
		return op.MulScalar(op.Normal(s, key, t.DType, t.Shape), std)
	}
}

// Uniform draws uniformly between -bound and bound.
func Uniform(bound float64) Initializer {
	return func(s op.Scope, key op.Key, t op.Type) *op.Tensor {
		u := op.Uniform(s, key, t.DType, t.Shape)
		return op.AddScalar(op.MulScalar(u, 2*bound), -bound)
	}
}

// Constant fills with one number.
func Constant(x float64) Initializer {
	return func(s op.Scope, _ op.Key, t op.Type) *op.Tensor { return op.Full(s, t.DType, t.Shape, x) }
}

// Values returns the parameters' values.
func Values(params []*Param) []*op.Tensor {
	values := make([]*op.Tensor, len(params))
	for i, p := range params {
		values[i] = p.Value
	}
	return values
}

// Names returns the parameters' names.
func Names(params []*Param) []string {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return names
}

// Bind gives params other values until restore is called: a trace's parameters in place of data.
func Bind(params []*Param, values []*op.Tensor) (restore func()) {
	old := make([]*op.Tensor, len(params))
	for i, p := range params {
		old[i], p.Value = p.Value, values[i]
	}
	return func() {
		for i, p := range params {
			p.Value = old[i]
		}
	}
}
