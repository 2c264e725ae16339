// Package jinja renders chat templates as transformers does: the part of Jinja that they use, with
// trim_blocks, lstrip_blocks and loop controls on, in a sandbox without files or attributes of Python's
// objects.
//
//	t, err := jinja.Parse("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
//	text, err := t.Render(map[string]any{"messages": messages})
package jinja
