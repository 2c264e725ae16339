package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/golden"
)

const page = "../../docs/eager.md"

func Example() {
	main()
	// Output:
	// one device   [0.2777 0.2327 0.1624 0.1771 0.1375]
	// mesh of four [0.2777 0.2327 0.1624 0.1771 0.1375]
	// f16          [0.2778 0.2898 0.1801 0.2042 0.1224]
}

// TestPage holds the page's programs to those that run, and its output to theirs.
func TestPage(t *testing.T) {
	for _, name := range []string{"oneDevice", "onMesh", "halves"} {
		golden.Section(t, page, name, "```go\n"+golden.Function(t, "main.go", name)+"\n```")
	}
	_, out, _ := strings.Cut(golden.Function(t, "main_test.go", "Example"), "// Output:\n")
	out = regexp.MustCompile(`(?m)^\t// |^}$`).ReplaceAllString(out, "")
	golden.Section(t, page, "Example", "```\n"+out+"```")
}
