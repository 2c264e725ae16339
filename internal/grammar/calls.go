package grammar

import (
	"fmt"

	"github.com/galley-ml/galley/internal/jinja"
)

// Call is a tool that a text may call.
type Call struct {
	Name string
	// Arguments is a JSON schema; none means any object.
	Arguments []byte
}

// CallConfig says how calls are written: between two texts, and under which key their arguments are.
type CallConfig struct {
	Begin, End, Key string
}

// Calls returns a call of one of several tools: an object with its name and its arguments.
func Calls(c CallConfig, calls []Call) (*Grammar, error) {
	j := newJSON()
	var a altExpr
	for _, call := range calls {
		arguments := expr(refExpr(j.object))
		if len(call.Arguments) > 0 {
			root, err := jinja.FromJSON(call.Arguments)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", call.Name, err)
			}
			s := &schema{jsonRules: j, root: root, refs: map[string]int{}}
			if arguments, err = s.value(root, call.Name, 0); err != nil {
				return nil, err
			}
		}
		name, err := compact(call.Name)
		if err != nil {
			return nil, err
		}
		a = append(a, seqExpr{literal(`{"name": ` + name + `, "` + c.Key + `": `), arguments, literal("}")})
	}
	if len(a) == 0 {
		return nil, fmt.Errorf("calls: want at least one tool")
	}
	return j.build(seqExpr{literal(c.Begin), a, literal(c.End)})
}
