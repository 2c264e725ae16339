package strategy

import (
	"fmt"
	"strconv"
	"strings"
)

// Offload is the part, 0 to 1, of each kind of state that leaves the devices between updates. Trainers move
// all of the optimizer's or none; other parts are planned and exported only.
type Offload struct {
	Optimizer   float64 `yaml:"optimizer,omitempty" json:"optimizer,omitempty"`
	Activations float64 `yaml:"activations,omitempty" json:"activations,omitempty"`
	// Dir, where set, has files for it in place of the host's memory.
	Dir string `yaml:"dir,omitempty" json:"dir,omitempty"`
}

// ParseOffload reads none, optimizer or optimizer:DIR.
func ParseOffload(text string) (Offload, error) {
	word, dir, disk := strings.Cut(text, ":")
	switch {
	case text == "" || text == None:
		return Offload{}, nil
	case word != "optimizer" || disk && dir == "":
		return Offload{}, fmt.Errorf("offload is %q: want none, optimizer, or optimizer:DIR for files in a directory",
			text)
	}
	return Offload{Optimizer: 1, Dir: dir}, nil
}

// String is what ParseOffload reads, where that can say it.
func (o Offload) String() string {
	var words []string
	for _, x := range []struct {
		name string
		part float64
	}{{"optimizer", o.Optimizer}, {"activations", o.Activations}} {
		switch {
		case x.part == 1:
			words = append(words, x.name)
		case x.part > 0:
			words = append(words, strconv.FormatFloat(100*x.part, 'g', 4, 64)+"% "+x.name)
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

// check refuses parts that are none, and files of nothing.
func (o Offload) check() error {
	if !(o.Optimizer >= 0 && o.Optimizer <= 1 && o.Activations >= 0 && o.Activations <= 1) {
		return fmt.Errorf("offload: %g of the optimizer's state and %g of activations: want parts from 0 to 1",
			o.Optimizer, o.Activations)
	}
	if o.Dir != "" && o.Optimizer == 0 && o.Activations == 0 {
		return fmt.Errorf("offload: directory %s for nothing: say what is kept there: optimizer 1", o.Dir)
	}
	return nil
}
