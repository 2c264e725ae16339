package strategy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Offload says which fraction of the training state, from 0 to 1, is kept outside of device memory. Programs
// prefetch each part while the one before it is in use, and write changes back.
type Offload struct {
	// Optimizer is the fraction of the optimizer state, Activations of the activations kept for the backward
	// pass, Parameters of the weights.
	Optimizer   float64 `yaml:"optimizer,omitempty" json:"optimizer,omitempty"`
	Activations float64 `yaml:"activations,omitempty" json:"activations,omitempty"`
	Parameters  float64 `yaml:"parameters,omitempty" json:"parameters,omitempty"`
	// Experts is the fraction of the expert weights and their optimizer state: device memory then holds only
	// the expert in use and the next one.
	Experts float64 `yaml:"experts,omitempty" json:"experts,omitempty"`
	// Dir, if set, keeps offloaded state in files there instead of in host memory.
	Dir string `yaml:"dir,omitempty" json:"dir,omitempty"`
}

// offloaded is one offloaded part with its name.
type offloaded struct {
	name string
	part *float64
}

func (o *Offload) parts() []offloaded {
	return []offloaded{
		{"optimizer", &o.Optimizer},
		{"activations", &o.Activations},
		{"parameters", &o.Parameters},
		{"experts", &o.Experts},
	}
}

// Some reports whether anything is offloaded.
func (o Offload) Some() bool {
	return slices.ContainsFunc(o.parts(), func(x offloaded) bool { return *x.part > 0 })
}

// ParseOffload reads what String prints: none, or a comma-separated list such as "optimizer", "50% optimizer,
// activations" or "optimizer=0.5", with an optional ":directory" at the end.
func ParseOffload(text string) (o Offload, err error) {
	bad := func() (Offload, error) {
		return Offload{}, fmt.Errorf("offload is %q: want none, or parts such as optimizer, activations=0.5, "+
			"parameters, experts, and :DIR behind them for files in a directory", text)
	}
	list, dir, disk := strings.Cut(text, ":")
	if text == "" || text == None {
		return o, nil
	}
	if o.Dir = dir; disk && dir == "" {
		return bad()
	}
	for word := range strings.SplitSeq(list, ",") {
		name, part, ok := partOf(strings.TrimSpace(word))
		at := slices.IndexFunc(o.parts(), func(x offloaded) bool { return x.name == name && *x.part == 0 })
		if !ok || at < 0 {
			return bad()
		}
		*o.parts()[at].part = part
	}
	return o, nil
}

// partOf reads "optimizer", "50% optimizer" or "optimizer=0.5".
func partOf(word string) (name string, part float64, ok bool) {
	scale := 1.0
	name, number, found := strings.Cut(word, "=")
	if percent, rest, has := strings.Cut(word, "% "); has && !found {
		name, number, found, scale = rest, percent, true, 100
	}
	if !found {
		return name, 1, true
	}
	part, err := strconv.ParseFloat(number, 64)
	part /= scale
	return name, part, err == nil && part > 0 && part <= 1
}

// String returns the text that ParseOffload reads.
func (o Offload) String() string {
	var words []string
	for _, x := range o.parts() {
		switch part := *x.part; {
		case part == 1:
			words = append(words, x.name)
		case part > 0:
			words = append(words, strconv.FormatFloat(100*part, 'g', 4, 64)+"% "+x.name)
		}
	}
	if words == nil {
		return None
	}
	text := strings.Join(words, ", ")
	if o.Dir != "" {
		text += ":" + o.Dir
	}
	return text
}

func (o Offload) check() error {
	for _, x := range o.parts() {
		if !(*x.part >= 0 && *x.part <= 1) {
			return fmt.Errorf("offload: %g of %s: want a part from 0 to 1", *x.part, x.name)
		}
	}
	if o.Dir != "" && !o.Some() {
		return fmt.Errorf("offload: directory %s, but nothing is offloaded: want a part such as optimizer=1", o.Dir)
	}
	return nil
}
