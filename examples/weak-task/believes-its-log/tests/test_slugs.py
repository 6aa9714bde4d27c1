from slugs import slugify


def test_no_dash_at_the_ends():
    assert slugify("Hello!") == "hello"
