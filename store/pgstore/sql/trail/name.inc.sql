-- The name under which the file of a report f is found, as store.TrailName has it.
translate(left(regexp_replace(f.value ->> 'path'::text, '^.*/', ''), 200), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')
