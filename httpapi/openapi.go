package httpapi

// document makes the OpenAPI document of the table.
func (h *Handler) document() []byte { return []byte("{}") }
