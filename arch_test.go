package galley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// floors is the import policy: a package imports only packages on floors below its own. Do not change it to
// make a build pass; change the package, or the policy together with ARCHITECTURE.md.
const floors = `
array internal/elastic/store internal/elastic/etcd/server internal/kernel internal/trace internal/strict internal/units internal/fault internal/lane internal/jinja internal/deploy
mesh internal/elastic/epoch internal/elastic/etcd internal/elastic/store/storetest tokenizer internal/comm internal/hlo internal/safetensors internal/golden internal/cluster internal/triton internal/ptx internal/jit internal/quant internal/sample internal/grammar
internal/packed internal/gguf internal/ir internal/comm/inproc internal/comm/process internal/mpi internal/sockets internal/discover internal/cuda internal/comm/commtest internal/hlo/interp
op internal/transport
internal/pass internal/lower internal/shard internal/spmd internal/pipeline
strategy backend internal/mpi/launch
cost internal/plan internal/seed internal/branch internal/cpu internal/xla internal/interpreter internal/checkpoint internal/offload internal/stage
op/optest backend/backendtest internal/elastic/worker internal/runtime internal/search internal/planfile internal/export
internal/step internal/elastic/agent
nn optim data data/parquet
models internal/layout fit
internal/executor internal/forecast internal/paged internal/paged/pagedtest internal/state dtensor eager parallel
internal/executor/local internal/executor/branches internal/executor/tapes internal/executor/accelerator internal/auto internal/evaluation internal/runfacts distribute job internal/decode dynamic
model internal/executor/choose serve/engine
. serve internal/dryrun job/jobtest
internal/check/report internal/check/torchop
internal/check internal/check/runs internal/check/sharding internal/check/random internal/bench internal/probe
cmd/galley examples
`

const module = "github.com/galley-ml/galley"

func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(floors), "\n") {
		for _, pkg := range strings.Fields(line) {
			floor[pkg] = i
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() &&
			(path == "internal/kernel/gen" || d.Name() == "testdata" || d.Name() == "node_modules" ||
				len(d.Name()) > 1 && d.Name()[0] == '.') {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		checkImports(t, path, floor)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootComposes: the façade imports what it re-exports or composes, and none of the floors' inner
// workings.
func TestRootComposes(t *testing.T) {
	allowed := map[string]bool{}
	for _, p := range strings.Fields(`array cost data distribute dtensor eager fit mesh model models nn op optim parallel strategy
		internal/auto backend internal/checkpoint internal/cpu internal/evaluation internal/executor internal/executor/choose
		internal/fault internal/forecast
		internal/ir internal/layout internal/plan internal/planfile internal/runfacts internal/runtime
		internal/state internal/step internal/units internal/xla job`) {
		allowed[p] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if rel, ours := strings.CutPrefix(name, module+"/"); ours {
				used[rel] = true
				if !allowed[rel] {
					t.Errorf("%s: imports %s: the façade neither re-exports nor composes it", path, name)
				}
			}
		}
	}
	for p := range allowed {
		if !used[p] {
			t.Errorf("the façade no longer imports %s: take it off the list", p)
		}
	}
}

// TestFloorsExist: every package that has a floor is there.
func TestFloorsExist(t *testing.T) {
	for _, pkg := range strings.Fields(floors) {
		list, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if pkg == "examples" {
			list, err = filepath.Glob("examples/*/*.go")
		}
		if err != nil || len(list) == 0 {
			t.Errorf("package %s has a floor and no files", pkg)
		}
	}
}

// floorOf returns the floor of a package's directory; whatever is below examples is an example.
func floorOf(floor map[string]int, dir string) (int, bool) {
	for d := dir; ; d = filepath.Dir(d) {
		if f, ok := floor[d]; ok && (d == dir || d == "examples") {
			return f, true
		}
		if d == "." {
			return 0, false
		}
	}
}

func checkImports(t *testing.T, path string, floor map[string]int) {
	t.Helper()
	dir := filepath.ToSlash(filepath.Dir(path))
	own, ok := floorOf(floor, dir)
	if !ok {
		t.Errorf("%s: package %s has no floor", path, dir)
		return
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		rel, ours := strings.CutPrefix(name, module)
		if !ours {
			continue
		}
		rel = strings.TrimPrefix(rel, "/")
		if rel == "" {
			rel = "."
		}
		if f, ok := floorOf(floor, rel); !ok || f >= own {
			t.Errorf("%s: imports %s, which is not on a lower floor", path, name)
		}
	}
}

// TestWorldsAreGiven: what runs on a world is handed one; it never makes its own.
func TestWorldsAreGiven(t *testing.T) {
	for _, dir := range []string{"internal/step", "internal/runtime", "internal/spmd", "internal/cpu", "op"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if strings.HasSuffix(strings.Trim(i.Path.Value, `"`), "comm/inproc") {
					t.Errorf("%s: it makes a world: want one as an argument", path)
				}
			}
		}
	}
}

// TestOpsKnowThemselves: outside of op nothing compares an op's name with one that it knows. What a pass
// needs to know, it asks. Whether two ops are of one kind may be seen by their names.
func TestOpsKnowThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it reads all source, which go test does")
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "op"+string(filepath.Separator)) {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && isOpName(n.X) != isOpName(n.Y) {
					t.Errorf("%v: it compares the name of an op: want a question that the op answers",
						files.Position(n.Pos()))
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && isOpName(n.Tag) {
					t.Errorf("%v: it switches on the name of an op: want a question that the op answers",
						files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isOpName reports whether an expression is x.Op().Name().
func isOpName(e ast.Expr) bool {
	name, ok := calls(e, "Name")
	if !ok {
		return false
	}
	_, ok = calls(name, "Op")
	return ok
}

// calls returns what a method of that name is called on.
func calls(e ast.Expr, method string) (ast.Expr, bool) {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return nil, false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != method {
		return nil, false
	}
	return s.X, true
}
