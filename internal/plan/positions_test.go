package plan

import "testing"

// TestMostTokens: of RoBERTa's positions some are for padding alone, so sequences are shorter than its table.
func TestMostTokens(t *testing.T) {
	const usual = `"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96,
		"intermediate_size": 128, "max_position_embeddings": 32`
	for text, want := range map[string]int{
		`{"model_type": "bert", ` + usual + `}`:                       32,
		`{"model_type": "roberta", ` + usual + `}`:                    30,
		`{"model_type": "roberta", "pad_token_id": 4, ` + usual + `}`: 27,
		`{"model_type": "llama", ` + usual + `}`:                      0,
	} {
		m, err := ParseModel("m", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.MostTokens(); got != want {
			t.Errorf("%s: got %d tokens, want %d", text, got, want)
		}
	}
}
