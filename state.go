package galley

import (
	"github.com/galley-ml/galley/internal/state"
	"github.com/galley-ml/galley/nn"
)

// StateConfig configures how a model's parameters map to a safetensors file.
type StateConfig struct {
	// Rename, if set, returns the name of a parameter in the file.
	Rename func(param string) string
	// Partly accepts missing parameters, which keep their values, and unexpected tensors.
	Partly bool
	// ShardBytes is the maximum size of one file of a directory; 0 means 5 GB.
	ShardBytes int64
}

// StateReport lists what did not match when state was loaded with Partly.
type StateReport struct {
	// Missing has the parameters that the file lacks, Unexpected the tensors that no parameter uses.
	Missing, Unexpected []string
}

// SaveState writes the parameters of any model as safetensors: to a single file if path ends in .safetensors,
// else to a directory with shards and an index in Hugging Face's format. Values that training holds on other
// devices are fetched.
func SaveState(path string, params []*nn.Param, c StateConfig) error {
	return state.Save(path, params, state.Config(c))
}

// LoadState reads the parameters of any model from a safetensors file or directory, cast to their dtypes.
// Call it before creating a trainer. All shapes are checked before any parameter changes. Missing and
// unexpected tensors are an error unless c.Partly is set.
func LoadState(s *Session, path string, params []*nn.Param, c StateConfig) (StateReport, error) {
	r, err := state.Load(s, path, params, state.Config(c))
	return StateReport(r), err
}
