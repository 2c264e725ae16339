package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/galley-ml/galley/data"
)

// TestChatTemplateOfModel trains on the text that the model is served with.
func TestChatTemplateOfModel(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	messages := []data.Message{{Role: "user", Content: "2+2?"}, {Role: "assistant", Content: "4"}}
	check := func(from, file, want, asked string) {
		t.Helper()
		template, _, err := chatTemplate(from, file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Render(messages, false); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if got, err := template.Render(messages[:1], true); got != asked || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, asked)
		}
	}
	chatML := "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
	check(dir, "", chatML+"4<|im_end|>\n", chatML)
	if err := keepChatTemplate(to, dir, ""); err != nil {
		t.Fatal(err)
	}
	check(to, "", chatML+"4<|im_end|>\n", chatML) // the file that is kept says the same

	own := `{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% if not loop.last or
		not add_generation_prompt %};{% endif %}{% endfor %}{% if add_generation_prompt %};[assistant] {% endif %}`
	write(t, filepath.Join(dir, "tokenizer_config.json"), `{"bos_token": "<s>"}`)
	write(t, filepath.Join(dir, "chat_template.jinja"), own)
	check(dir, "", "<s>[user] 2+2?;[assistant] 4;", "<s>[user] 2+2?;[assistant] ")
	if err := keepChatTemplate(to, dir, ""); err != nil {
		t.Fatal(err)
	}
	check(to, "", "<s>[user] 2+2?;[assistant] 4;", "<s>[user] 2+2?;[assistant] ")

	other := filepath.Join(dir, "other.jinja")
	write(t, other, `{{ messages[0].content }}{% if messages|length > 1 %}={{ messages[1].content }}{% elif
		add_generation_prompt %}={% endif %}`)
	check(dir, other, "2+2?=4", "2+2?=")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
