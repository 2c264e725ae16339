package strict

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
)

// YAML reads one document into a value. Some texts that are no YAML make the library panic (a list that an alias leaves
// empty); they are mistakes like any other.
func YAML(text []byte, into any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("malformed YAML: %v", v)
		}
	}()
	return yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(into)
}
