// Package models holds the families of language models that Galley trains: llama, mistral, qwen2, qwen3, gpt2
// and mixtral, read from and written to Hugging Face directories.
//
// A Config is one form for all families; config.json in its older and newer forms is read into it. A
// parameter is called as in transformers, so a checkpoint, an optimizer's state and an error message all mean
// the same tensor by a name; where a family's files hold another form than its memory (Mixtral's experts),
// Load and Save translate.
//
//	m, err := models.Load("llama-3-8b", nn.Config{Scope: session})
//	loss := m.Loss(ids, labels)
//	grads := op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(m.Params()))
//	err = models.Save("out", m, models.SaveConfig{})
package models
