package httpapi

import "encoding/json"

// The size of the parts in which a page is read, and of the page: rows of a store can have
// megabytes.
const (
	partSize    = 16      // entries that are read at once if each can be large
	maxPageSize = 8 << 20 // bytes of a page, which ends with the entry that reaches them
)

// inParts reads a page of up to limit entries after a key, size of them at a time. It keeps only
// their JSON, so it needs as much memory as the answer and one part. The page ends early if it has
// [maxPageSize] bytes. Read returns entries, and the key after which there may be more; the zero
// key means that there are none. Key returns the key of an entry, and view the form that is sent.
func inParts[K comparable, T any](limit, size int, after K, read func(after K, limit int) ([]T, K, error), key func(*T) K, view func(*T) any) (items []json.RawMessage, next K, err error) {
	var none K
	for n := 0; ; {
		list, behind, err := read(after, min(size, limit-len(items)))
		if err != nil {
			return nil, none, err
		}
		for i := range list {
			text, err := json.Marshal(view(&list[i]))
			if err != nil {
				return nil, none, err
			}
			items = append(items, text)
			if n += len(text); n >= maxPageSize && (i < len(list)-1 || behind != none) {
				return items, key(&list[i]), nil
			}
		}
		if after = behind; behind == none || len(items) >= limit {
			return items, behind, nil
		}
	}
}

// fullPage returns a page of a store as [inParts] takes it: there may be more entries after it if
// it has as many as were asked for.
func fullPage[K comparable, T any](list []T, limit int, key func(*T) K) (all []T, next K) {
	if len(list) == limit {
		next = key(&list[limit-1])
	}
	return list, next
}

// asIs is the view of entries that are sent as they are.
func asIs[T any](x *T) any { return x }
