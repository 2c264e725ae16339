package galley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestRootHasNoCycles checks that the files of the façade can be read one after the other: no two of them use
// each other's exported names, directly or through others. A method counts as a use of its receiver's type.
func TestRootHasNoCycles(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, home := map[string]*ast.File{}, map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = f
		for _, name := range declared(f) {
			home[name] = path
		}
	}
	uses := map[string]map[string]string{}
	for path, f := range files {
		uses[path] = usesOf(path, f, home)
	}
	for path := range files {
		if way := wayBack(path, path, uses, map[string]bool{}); way != nil {
			t.Errorf("a cycle of files: %s", strings.Join(append([]string{path}, way...), " uses "))
		}
	}
}

// declared returns the exported names that a file declares, methods left out.
func declared(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// usesOf returns the files whose exported names a file uses, each with one of these names.
func usesOf(path string, f *ast.File, home map[string]string) map[string]string {
	fields := map[ast.Node]bool{} // names of fields, and of other packages
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			fields[n.Sel] = true
		case *ast.KeyValueExpr:
			fields[n.Key] = true
		case *ast.Field:
			for _, name := range n.Names {
				fields[name] = true
			}
		}
		return true
	})
	uses := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() && !fields[n] {
			if at, ok := home[id.Name]; ok && at != path {
				uses[at] = id.Name
			}
		}
		return true
	})
	return uses
}

// wayBack returns the files by which one uses the goal, itself left out; nil if it does not.
func wayBack(from, goal string, uses map[string]map[string]string, seen map[string]bool) []string {
	for next, name := range uses[from] {
		if next == goal {
			return []string{next + " (" + name + ")"}
		}
		if !seen[next] {
			seen[next] = true
			if way := wayBack(next, goal, uses, seen); way != nil {
				return append([]string{next + " (" + name + ")"}, way...)
			}
		}
	}
	return nil
}
