package checkpoint

import (
	"fmt"
	"strconv"
)

// ScalarType is the type of a Scalar.
type ScalarType string

// The types of scalars.
const (
	IntScalar   ScalarType = "int"
	FloatScalar ScalarType = "float"
	TextScalar  ScalarType = "text"
)

// Scalar is a small named value. It is stored as text, so that the manifest shows exactly what is read back,
// including infinities.
type Scalar struct {
	Name  string     `json:"name"`
	Type  ScalarType `json:"type"`
	Value string     `json:"value"`
}

// Int returns a named integer.
func Int(name string, v int64) Scalar { return Scalar{name, IntScalar, strconv.FormatInt(v, 10)} }

// Float returns a named number; every bit of it is kept, except for a NaN's.
func Float(name string, v float64) Scalar {
	return Scalar{name, FloatScalar, strconv.FormatFloat(v, 'g', -1, 64)}
}

// Text returns a named text.
func Text(name, v string) Scalar { return Scalar{name, TextScalar, v} }

// Int returns the integer with a name.
func (m Meta) Int(name string) (int64, error) {
	s, err := m.scalar(name, IntScalar)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s.Value, 10, 64)
}

// Float returns the number with a name.
func (m Meta) Float(name string) (float64, error) {
	s, err := m.scalar(name, FloatScalar)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(s.Value, 64)
}

// Text returns the text with a name.
func (m Meta) Text(name string) (string, error) {
	s, err := m.scalar(name, TextScalar)
	return s.Value, err
}

func (m Meta) scalar(name string, t ScalarType) (Scalar, error) {
	for _, s := range m.Scalars {
		switch {
		case s.Name == name && s.Type == t:
			return s, nil
		case s.Name == name:
			return Scalar{}, fmt.Errorf("checkpoint: step %d: scalar %q: got type %s, want %s", m.Step, name, s.Type,
				t)
		}
	}
	return Scalar{}, fmt.Errorf("checkpoint: step %d: no scalar %q among %d", m.Step, name, len(m.Scalars))
}

// check returns an error for a value that its type does not allow or would write differently.
func (s Scalar) check() error {
	again := s
	switch s.Type {
	case IntScalar:
		v, err := strconv.ParseInt(s.Value, 10, 64)
		if err != nil {
			return fmt.Errorf("scalar %q: got %q, want an integer", s.Name, s.Value)
		}
		again = Int(s.Name, v)
	case FloatScalar:
		v, err := strconv.ParseFloat(s.Value, 64)
		if err != nil {
			return fmt.Errorf("scalar %q: got %q, want a number", s.Name, s.Value)
		}
		again = Float(s.Name, v)
	case TextScalar:
	default:
		return fmt.Errorf("scalar %q: got type %q, want int, float or text", s.Name, s.Type)
	}
	if again != s {
		return fmt.Errorf("scalar %q: got %q, want %q", s.Name, s.Value, again.Value)
	}
	return nil
}

// check returns an error for what a manifest cannot hold.
func (m Meta) check() error {
	if m.Step < 0 || m.Sample < 0 {
		return fmt.Errorf("got step %d and sample %d, want at least 0", m.Step, m.Sample)
	}
	seen := map[string]bool{}
	for _, c := range m.RNG {
		if err := checkName("random stream", c.Name, seen); err != nil {
			return err
		}
	}
	clear(seen)
	for _, s := range m.Scalars {
		if err := checkName("scalar", s.Name, seen); err != nil {
			return err
		}
		if err := checkUTF8("scalar", s.Name, s.Value); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}
