package export

import (
	"fmt"
	"strings"
)

// flags is a command line being built.
type flags struct{ list []string }

func (f *flags) add(name string, value any) {
	f.list = append(f.list, fmt.Sprintf("--%s %v", name, value))
}

func (f *flags) on(name string) { f.list = append(f.list, "--"+name) }

func (f *flags) text() string { return "  " + strings.Join(f.list, " \\\n  ") }
