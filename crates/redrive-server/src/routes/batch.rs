//! One object or an array of them, as the description of the API says it.

/// Names the body that is one object of this type or an array of them.
macro_rules! one_or_many {
    ($name:ident of $item:ty) => {
        struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder};
                let many = ArrayBuilder::new().items(<$item>::schema());
                OneOfBuilder::new().item(<$item>::schema()).item(many).into()
            }
        }

        impl utoipa::ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                <$item>::schemas(schemas);
            }
        }
    };
}
pub(super) use one_or_many;
