//go:build cgo && linux

package xla

import (
	"reflect"
	"testing"

	"github.com/gomlx/go-xla/pjrt"
)

// TestFieldsOfBinding: the pointer that newEngine reads is where it reads it, in the version of go-xla that
// is linked.
func TestFieldsOfBinding(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		path []string
	}{
		{reflect.TypeFor[*pjrt.Client](), []string{"client", "c"}},
	} {
		at := c.of
		for _, name := range c.path {
			f, ok := at.Elem().FieldByName(name)
			if !ok || f.Type.Kind() != reflect.Pointer {
				t.Fatalf("%v: no pointer %q in %v", c.of, name, at)
			}
			at = f.Type
		}
	}
}
