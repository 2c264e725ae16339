package grammar

// jsonRules is the rules of JSON itself, which schemas use.
type jsonRules struct {
	*builder
	value, object, array, text, number, integer, char, space int
}

func newJSON() *jsonRules {
	j := &jsonRules{builder: newBuilder()}
	for _, r := range []*int{&j.value, &j.object, &j.array, &j.text, &j.number, &j.integer, &j.char, &j.space} {
		*r = j.rule()
	}
	// Blanks are few, so that a model cannot write nothing else for ever.
	j.define(j.space, altExpr{emptyExpr{}, literal(" "),
		seqExpr{literal("\n"), repeatExpr{class(' ', ' ', '\t', '\t'), 0, 20}}})
	hex := class('0', '9', 'a', 'f', 'A', 'F')
	plain := runes([]rune{0x20, '"' - 1, '"' + 1, '\\' - 1, '\\' + 1, 0x10ffff})
	// Of surrogates only none are written: half a pair is no character.
	high := seqExpr{class('0', '9', 'a', 'c', 'A', 'C', 'e', 'f', 'E', 'F'), hex}
	low := seqExpr{class('d', 'd', 'D', 'D'), class('0', '7')}
	j.define(j.char, altExpr{plain, seqExpr{literal(`\`), altExpr{
		class('"', '"', '\\', '\\', '/', '/', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't'),
		seqExpr{literal("u"), altExpr{high, low}, hex, hex}}}})
	j.define(j.text, seqExpr{literal(`"`), repeatExpr{refExpr(j.char), 0, -1}, literal(`"`)})
	digits := repeatExpr{class('0', '9'), 0, 15}
	j.define(j.integer, seqExpr{optional(literal("-")), altExpr{literal("0"), seqExpr{class('1', '9'), digits}}})
	j.define(j.number, seqExpr{refExpr(j.integer),
		optional(seqExpr{literal("."), repeatExpr{class('0', '9'), 1, 16}}),
		optional(seqExpr{class('e', 'e', 'E', 'E'), optional(class('+', '+', '-', '-')),
			repeatExpr{class('0', '9'), 1, 2}})})
	pair := seqExpr{refExpr(j.text), j.colon(), refExpr(j.value)}
	j.define(j.object, j.list("{", pair, 0, -1, "}"))
	j.define(j.array, j.list("[", refExpr(j.value), 0, -1, "]"))
	j.define(j.value, altExpr{refExpr(j.object), refExpr(j.array), refExpr(j.text), refExpr(j.number),
		literal("true"), literal("false"), literal("null")})
	return j
}

func (j *jsonRules) blank() expr { return refExpr(j.space) }
func (j *jsonRules) colon() expr { return seqExpr{j.blank(), literal(":"), j.blank()} }
func (j *jsonRules) comma() expr { return seqExpr{j.blank(), literal(","), j.blank()} }

// list returns min to max elements between signs; max -1 is no limit.
func (j *jsonRules) list(begin string, e expr, least, most int, end string) expr {
	one := refExpr(j.sub(e).rule)
	empty := seqExpr{literal(begin), j.blank(), literal(end)}
	if most == 0 {
		return empty
	}
	rest := most
	if most > 0 {
		rest = most - 1
	}
	full := seqExpr{literal(begin), j.blank(), one,
		repeatExpr{seqExpr{j.comma(), one}, max(0, least-1), rest}, j.blank(), literal(end)}
	if least > 0 {
		return full
	}
	return altExpr{empty, full}
}

// JSON returns any JSON object.
func JSON() (*Grammar, error) {
	j := newJSON()
	return j.build(refExpr(j.object))
}
