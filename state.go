package galley

import (
	"github.com/galley-ml/galley/internal/state"
	"github.com/galley-ml/galley/nn"
)

// StateConfig says how the parameters of a model are found in safetensors.
type StateConfig struct {
	// Rename, where set, is the name of a parameter in the file.
	Rename func(param string) string
	// Partly lets parameters be missing there, which keep their values, and tensors that no parameter has.
	Partly bool
	// ShardBytes is how much one file of a directory holds at most; 0 means 5 GB.
	ShardBytes int64
}

// StateReport is what was left out by loading partly.
type StateReport struct {
	// Missing is the parameters that the file does not have, Unexpected its tensors that no parameter has.
	Missing, Unexpected []string
}

// SaveState writes the parameters of any model as safetensors: to a file, if path ends so, else to a
// directory with shards and an index as Hugging Face has them. Values that training has on other devices are
// fetched.
func SaveState(path string, params []*nn.Param, c StateConfig) error {
	return state.Save(path, params, state.Config(c))
}

// LoadState gives the parameters of any model the values of a safetensors file, or of a directory of such,
// cast to their dtype. It comes before a trainer is made of them. Every shape is checked before any parameter
// changes. What the file lacks, or has besides, is an error unless c is Partly.
func LoadState(s *Session, path string, params []*nn.Param, c StateConfig) (StateReport, error) {
	r, err := state.Load(s, path, params, state.Config(c))
	return StateReport(r), err
}
