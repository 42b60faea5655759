use serde_json::json;

use super::*;

#[test]
fn values_fit_or_it_is_said_why_not() {
    let schema = json!({
        "type": "object",
        "required": ["name", "tags"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
            "size": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 10},
            "kind": {"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]},
        },
        "$defs": {"tag": {"type": "string"}},
    });
    let fine = [
        json!({"name": "ab", "tags": []}),
        json!({"name": "ab", "tags": ["x", "y"], "size": 9.0, "kind": "c"}),
        json!({"name": "ab", "tags": ["x"], "size": null, "kind": "a"}),
    ];
    for value in fine {
        assert_eq!(issues(&value, &schema), Vec::<String>::new(), "{value}");
    }
    let wrong = [
        (json!({"tags": []}), "`name` is missing in the result"),
        (json!({"name": 1, "tags": []}), "`name` is not of the type \"string\""),
        (json!({"name": "a", "tags": []}), "`name` has 1, fewer than `minLength` 2"),
        (json!({"name": "AB", "tags": []}), "`name` does not match `^[a-z]+$`"),
        (json!({"name": "ab", "tags": [1]}), "item 0 of `tags` is not of the type \"string\""),
        (json!({"name": "ab", "tags": ["", "", ""]}), "`tags` has 3, more than `maxItems` 2"),
        (json!({"name": "ab", "tags": [], "size": 10}), "`size` is beyond `exclusiveMaximum`"),
        (
            json!({"name": "ab", "tags": [], "size": 1.5}),
            "`size` is not of the type [\"integer\",\"null\"]",
        ),
        (
            json!({"name": "ab", "tags": [], "kind": "d"}),
            "`kind` does not fit exactly one of `oneOf`",
        ),
        (json!({"name": "ab", "tags": [], "more": 1}), "`more` may not be there"),
    ];
    for (value, why) in wrong {
        assert_eq!(issues(&value, &schema), [why], "{value}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({"$ref": "#", "properties": {"a": {"$ref": "#"}}});
    assert_eq!(issues(&json!({"a": {"a": {}}}), &schema), Vec::<String>::new());
    assert_eq!(unusable(&json!({"type": "array"})), Some("its `type` is not `object`"));
    assert_eq!(unusable(&json!([])), Some("it is no object"));
}
