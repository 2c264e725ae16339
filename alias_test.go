package galley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
)

// aliased is the types of the root that are defined in packages which users cannot read the documentation of.
var aliased = map[string]reflect.Type{
	"AutoHost": reflect.TypeFor[galley.AutoHost](), "BugError": reflect.TypeFor[*galley.BugError](),
	"Config": reflect.TypeFor[galley.Config](), "Device": reflect.TypeFor[*galley.Device](),
	"DeviceMemory": reflect.TypeFor[galley.DeviceMemory](), "Executable": reflect.TypeFor[*galley.Executable](),
	"Forecast": reflect.TypeFor[galley.Forecast](), "Memory": reflect.TypeFor[galley.Memory](),
	"Mode": reflect.TypeFor[galley.Mode](), "Node": reflect.TypeFor[*galley.Node](),
	"Options": reflect.TypeFor[galley.Options](), "Program": reflect.TypeFor[*galley.Program](),
	"ExecutedOp": reflect.TypeFor[galley.ExecutedOp](), "Session": reflect.TypeFor[*galley.Session](),
	"Share": reflect.TypeFor[galley.Share](), "Span": reflect.TypeFor[galley.Span](),
	"XLAConfig": reflect.TypeFor[galley.XLAConfig](),
}

// TestAliasesAreTold: go doc shows neither fields nor methods of a type that is defined in an internal
// package, so the comment of its name in the root names them.
func TestAliasesAreTold(t *testing.T) {
	told := aliasComments(t)
	for name, text := range told {
		of, ok := aliased[name]
		if !ok {
			t.Errorf("%s is an alias of an internal type: list it in this test", name)
			continue
		}
		for _, member := range members(of) {
			if !regexp.MustCompile(`\b` + member + `\b`).MatchString(text) {
				t.Errorf("%s: its comment does not name %s", name, member)
			}
		}
	}
	for name := range aliased {
		if _, ok := told[name]; !ok {
			t.Errorf("%s is no alias of an internal type any more: take it off the list", name)
		}
	}
}

// aliasComments returns the comments of the root's aliases of internal types.
func aliasComments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		internal := map[string]bool{}
		for _, spec := range f.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			internal[path[strings.LastIndex(path, "/")+1:]] = strings.Contains(path, "/internal/")
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			spec := g.Specs[0].(*ast.TypeSpec)
			if from, ok := spec.Type.(*ast.SelectorExpr); ok && internal[from.X.(*ast.Ident).Name] {
				told[spec.Name.Name] = g.Doc.Text()
			}
		}
	}
	return told
}

// members returns the exported fields and methods of a type that can be called from outside: those whose
// arguments have types that users can name.
func members(of reflect.Type) (list []string) {
	for i := range of.NumMethod() {
		m := of.Method(i)
		first := 1 // the receiver
		if of.Kind() == reflect.Interface {
			first = 0
		}
		nameable := m.Name != "String" && m.Name != "Error" && m.Name != "Unwrap"
		for k := first; k < m.Type.NumIn(); k++ {
			nameable = nameable && canName(m.Type.In(k))
		}
		if nameable {
			list = append(list, m.Name)
		}
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Struct {
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() && !f.Anonymous {
				list = append(list, f.Name)
			}
		}
	}
	return list
}

// canName reports whether users have a name for a type.
func canName(t reflect.Type) bool {
	for _, a := range aliased {
		if t == a || a.Kind() == reflect.Pointer && t == a.Elem() {
			return true
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		if t.Name() == "" {
			return canName(t.Elem())
		}
	case reflect.Func:
		for i := range t.NumIn() {
			if !canName(t.In(i)) {
				return false
			}
		}
	}
	public := t == reflect.TypeFor[galley.Tensor]() || t == reflect.TypeFor[galley.Type]()
	return public || !strings.Contains(t.PkgPath(), "/internal/")
}
