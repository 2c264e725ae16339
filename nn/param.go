package nn

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Param is a named tensor that training changes.
type Param struct {
	Name string
	Type op.Type
	// Value is what layers compute with: an eager tensor, or a traced one while a program is built (see Bind).
	// It is nil in a model made without a scope until one is bound.
	Value *op.Tensor
	// Fixed is a parameter that a checkpoint holds and training leaves as it is.
	Fixed bool
	// Buffer is a tensor that no optimizer changes but layers do while their model trains: see Init.Buffer.
	Buffer bool
	// mode is that of its model; nil in a parameter that was made by hand.
	mode *mode
	// first makes the value that it begins with, of the numbers of key; nil where that is read from somewhere.
	first Initializer
	key   op.Key
}

// Like returns another parameter of the same model, without a value.
func (p *Param) Like(name string, t op.Type) *Param { return &Param{Name: name, Type: t, mode: p.mode} }

// Grad returns the sum of the gradients that Backward has brought to the parameter since the last ClearGrad;
// nil before the first.
func (p *Param) Grad() *op.Tensor {
	if p.Value == nil {
		return nil
	}
	return p.Value.Grad()
}

// ClearGrad forgets the parameter's gradient.
func (p *Param) ClearGrad() {
	if p.Value != nil {
		p.Value.ClearGrad()
	}
}

// Config says how parameters get their first values.
type Config struct {
	// Scope makes the values; nil makes a model that has only shapes, for tracing and planning, and for trainers
	// on many devices: each then draws the parts that it holds, and no process ever has the whole model.
	Scope op.Scope
	// DType of the parameters; the zero value is F32.
	DType array.DType
	// Seed and a parameter's name are all that its first value depends on.
	Seed uint64
	// Load, if set, gives a parameter's value in place of its initializer; a nil value leaves only its shape.
	Load func(name string, t op.Type) (*op.Tensor, error)
	// Frozen parameters do not remember what is computed from them: for inference.
	Frozen bool
}

// Init makes a model's parameters and keeps the list of them. At gives a view one level deeper in the names.
type Init struct {
	*list
	prefix string
	std    float64
	// matrices, where not nil, is how matrices begin.
	matrices Initializer
}

// list is what all views of an Init share.
type list struct {
	config Config
	params []*Param
	names  map[string]bool
	mode   mode
	err    error
	// adaptable is the layers that adapters can change.
	adaptable []Adaptable
}

// NewInit starts an empty model.
func NewInit(c Config) *Init {
	if c.DType == array.Invalid {
		c.DType = array.F32
	}
	return &Init{list: &list{config: c, names: map[string]bool{}}}
}

// At returns the same model with names below name.
func (in *Init) At(name string) *Init {
	return &Init{list: in.list, prefix: in.prefix + name + ".", std: in.std, matrices: in.matrices}
}

// WithNormal returns the same model with what layers call matrices drawn from a normal distribution and their
// biases zero, as Hugging Face's models begin, in place of the layers' own choice.
func (in *Init) WithNormal(std float64) *Init {
	return &Init{list: in.list, prefix: in.prefix, std: std}
}

// WithWeights returns the same model with what layers call matrices made by first.
func (in *Init) WithWeights(first Initializer) *Init {
	return &Init{list: in.list, prefix: in.prefix, std: in.std, matrices: first}
}

// weights returns the initializer of a matrix that sums over from elements.
func (in *Init) weights(from int) Initializer {
	if in.matrices != nil {
		return in.matrices
	}
	if in.std > 0 {
		return Normal(in.std)
	}
	return Uniform(1 / math.Sqrt(float64(max(from, 1))))
}

// biases returns the initializer of the bias beside such a matrix.
func (in *Init) biases(from int) Initializer {
	if in.std > 0 {
		return Constant(0)
	}
	return in.weights(from)
}

// Index is At for the layers of a list.
func (in *Init) Index(i int) *Init { return in.At(strconv.Itoa(i)) }

// DType returns the dtype of the model's parameters.
func (in *Init) DType() array.DType { return in.config.DType }

// Params returns all parameters made so far, in order.
func (in *Init) Params() []*Param { return in.params }

// Adaptable returns the layers made so far that an Adapter can change, in order.
func (in *Init) Adaptable() []Adaptable { return in.adaptable }

// Err returns the first mistake: a name used twice, or a value that could not be loaded.
func (in *Init) Err() error { return in.err }

// Param makes a parameter.
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

// Fixed makes a parameter that training leaves as it is.
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

// keyOf returns the stream of random numbers that belongs to a name.
func keyOf(seed uint64, name string) op.Key {
	h := fnv.New64a()
	h.Write([]byte(name))
	return op.Key{Seed: seed, Stream: h.Sum64()}
}

// Initializer makes a parameter's first value.
type Initializer func(s op.Scope, key op.Key, t op.Type) *op.Tensor

// Normal draws from a normal distribution around zero.
func Normal(std float64) Initializer {
	return func(s op.Scope, key op.Key, t op.Type) *op.Tensor {
		return op.MulScalar(op.Normal(s, key, t.DType, t.Shape), std)
	}
}

// Uniform draws evenly between -bound and bound.
func Uniform(bound float64) Initializer {
	return func(s op.Scope, key op.Key, t op.Type) *op.Tensor {
		u := op.Uniform(s, key, t.DType, t.Shape)
		return op.AddScalar(op.MulScalar(u, 2*bound), -bound)
	}
}

// Constant returns one number everywhere.
func Constant(x float64) Initializer {
	return func(s op.Scope, _ op.Key, t op.Type) *op.Tensor { return op.Full(s, t.DType, t.Shape, x) }
}

// Values returns what the parameters hold.
func Values(params []*Param) []*op.Tensor {
	values := make([]*op.Tensor, len(params))
	for i, p := range params {
		values[i] = p.Value
	}
	return values
}

// Names returns what the parameters are called.
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
