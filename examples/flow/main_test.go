package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/golden"
)

const page = "../../docs/control-flow.md"

func Example() {
	main()
	// Output:
	// [0.7616 0.9140 1.7451] [0.0973 0.2372 0.1371 0.1257]
	// [1.4142] [0.3536]
	// [0.6000 0.8000]
	// program 1 of at most 2: time 5 is padded to 16: the first batch of f32[16,1] f32[16]
	// 5 steps: [2]
	// 12 steps: [5.5]
	// program 2 of at most 2: time 40 is padded to 64: the first batch of f32[64,1] f32[64]
	// 40 steps: [19.5]
}

// TestPage holds the page's programs to those that run, and its output to theirs.
func TestPage(t *testing.T) {
	for _, name := range []string{"recurrence", "root", "guarded", "lengths"} {
		golden.Section(t, page, name, "```go\n"+golden.Function(t, "main.go", name)+"\n```")
	}
	_, out, _ := strings.Cut(golden.Function(t, "main_test.go", "Example"), "// Output:\n")
	out = regexp.MustCompile(`(?m)^\t// |^}$`).ReplaceAllString(out, "")
	golden.Section(t, page, "Example", "```\n"+out+"```")
}
