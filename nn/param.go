package nn

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Param is a named tensor that training changes.
type Param struct {
	Name string
	Type op.Type
	// Value is what layers compute with: an eager tensor, or a traced one while a program is built (see Bind). It is
	// nil in a model made without a scope until one is bound.
	Value *op.Tensor
}

// Config says how parameters get their first values.
type Config struct {
	// Scope makes the values; nil makes a model that has only shapes, for tracing and planning.
	Scope op.Scope
	// DType of the parameters; the zero value is F32.
	DType array.DType
	// Seed and a parameter's name are all that its first value depends on.
	Seed uint64
	// Load, where set, gives a parameter's value in place of its initializer.
	Load func(name string, t op.Type) (*op.Tensor, error)
}

// Init makes a model's parameters and keeps the list of them. At gives a view one level deeper in the names.
type Init struct {
	*list
	prefix string
}

// list is what all views of an Init share.
type list struct {
	config Config
	params []*Param
	names  map[string]bool
	err    error
}

// NewInit starts an empty model.
func NewInit(c Config) *Init {
	if c.DType == array.Invalid {
		c.DType = array.F32
	}
	return &Init{list: &list{config: c, names: map[string]bool{}}}
}

// At is the same model with names below name.
func (in *Init) At(name string) *Init { return &Init{list: in.list, prefix: in.prefix + name + "."} }

// Index is At for the layers of a list.
func (in *Init) Index(i int) *Init { return in.At(strconv.Itoa(i)) }

// DType is the dtype of the model's parameters.
func (in *Init) DType() array.DType { return in.config.DType }

// Params is all parameters made so far, in order.
func (in *Init) Params() []*Param { return in.params }

// Err is the first mistake: a name used twice, or a value that could not be loaded.
func (in *Init) Err() error { return in.err }

// Param makes a parameter.
func (in *Init) Param(name string, shape array.Shape, first Initializer) *Param {
	p := &Param{Name: in.prefix + name, Type: op.Type{DType: in.config.DType, Shape: shape}}
	if in.names[p.Name] && in.err == nil {
		in.err = fmt.Errorf("parameter %q is made twice", p.Name)
	}
	in.names[p.Name] = true
	in.params = append(in.params, p)
	if err := in.fill(p, first); err != nil && in.err == nil {
		in.err = err
	}
	return p
}

func (in *Init) fill(p *Param, first Initializer) error {
	if in.config.Load != nil {
		v, err := in.config.Load(p.Name, p.Type)
		if err != nil {
			return err
		}
		if v != nil && !v.Type().Equal(p.Type) {
			return fmt.Errorf("parameter %q: got %v, want %v", p.Name, v.Type(), p.Type)
		}
		p.Value = v.Track()
		return nil
	}
	if in.config.Scope != nil {
		p.Value = first(in.config.Scope, keyOf(in.config.Seed, p.Name), p.Type).Detach().Track()
		return p.Value.Err()
	}
	return nil
}

// keyOf is the stream of random numbers that belongs to a name.
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

// Constant is one number everywhere.
func Constant(x float64) Initializer {
	return func(s op.Scope, _ op.Key, t op.Type) *op.Tensor { return op.Full(s, t.DType, t.Shape, x) }
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
