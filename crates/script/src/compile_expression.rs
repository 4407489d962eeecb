//! Compiles parsed expressions.

use std::sync::Arc;

use crate::ast::Expr;
use crate::expr::{Case, Env, Node};
use crate::random::Rng;
use crate::vars::{Symbols, Vars};

/// Resolves variables and folds constants. An operation that would fail is not folded, so that it
/// fails when it runs; random numbers and `debug` are never folded.
pub(crate) fn lower(expr: &Expr, symbols: &mut Symbols) -> Node {
    fold(match expr {
        Node::Constant(value) => Node::Constant(*value),
        Node::Variable(name) => Node::Variable(symbols.slot(name)),
        Node::Binary(function, args) => Node::Binary(*function, lower_all(args, symbols)),
        Node::Unary(function, arg) => Node::Unary(*function, lower_boxed(arg, symbols)),
        Node::Is(operand, value) => Node::Is(lower_boxed(operand, symbols), *value),
        Node::And(both) => Node::And(lower_all(both, symbols)),
        Node::Or(both) => Node::Or(lower_all(both, symbols)),
        Node::Case(case) => Node::Case(Box::new(Case {
            branches: case.branches.iter().map(|branch| *lower_all(branch, symbols)).collect(),
            otherwise: lower(&case.otherwise, symbols),
        })),
        Node::Extreme(extreme, args) => Node::Extreme(*extreme, args.iter().map(|arg| lower(arg, symbols)).collect()),
        Node::Random(args) => Node::Random(lower_all(args, symbols)),
        Node::Shaped(shape, args) => Node::Shaped(*shape, lower_all(args, symbols)),
        Node::Permute(args) => Node::Permute(lower_all(args, symbols)),
        Node::Debug(arg) => Node::Debug(lower_boxed(arg, symbols)),
    })
}

fn lower_boxed(expr: &Expr, symbols: &mut Symbols) -> Box<Node> {
    Box::new(lower(expr, symbols))
}

fn lower_all<const N: usize>(exprs: &[Expr; N], symbols: &mut Symbols) -> Box<[Node; N]> {
    Box::new(exprs.each_ref().map(|expr| lower(expr, symbols)))
}

/// Replaces the node by its value if its arguments are constants and it does not fail.
fn fold(node: Node) -> Node {
    let constant = |node: &Node| matches!(node, Node::Constant(_));
    let foldable = match &node {
        Node::Binary(_, args) | Node::And(args) | Node::Or(args) => args.iter().all(constant),
        Node::Unary(_, arg) | Node::Is(arg, _) => constant(arg),
        Node::Case(case) => case.branches.iter().flatten().all(constant) && constant(&case.otherwise),
        Node::Extreme(_, args) => args.iter().all(constant),
        Node::Permute(args) => args.iter().all(constant),
        Node::Constant(_) | Node::Variable(_) | Node::Random(_) | Node::Shaped(..) | Node::Debug(_) => false,
    };
    if !foldable {
        return node;
    }
    let mut env = Env { vars: &mut Vars::new(Arc::new(Symbols::new())), rng: &mut Rng::seed(0), debug: &mut |_| {} };
    match node.eval(&mut env) {
        Ok(value) => Node::Constant(value),
        Err(_) => node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Binary;
    use crate::lexer::Lexer;
    use crate::value::Value;

    fn lowered(text: &str) -> Node {
        let expr = crate::expr_parser::parse_expr(&mut Lexer::new(text, 0)).unwrap();
        lower(&expr, &mut Symbols::new())
    }

    #[test]
    fn constants_are_folded_and_failures_and_effects_are_not() {
        for (text, value) in [
            ("1 + 2 * -3", Value::Int(-5)),
            ("case when 1 > 2 then 1 end", Value::Null),
            ("least(3, 2.5)", Value::Double(2.5)),
            ("true and null is null", Value::Bool(true)),
            ("double(pi()) > 3", Value::Bool(true)),
        ] {
            assert_eq!(lowered(text), Node::Constant(value), "{text}");
        }
        for text in ["1 / 0", "random(1, 1)", "debug(1)", "random_zipfian(1, 1, 2)", "not 1"] {
            assert!(!matches!(lowered(text), Node::Constant(_)), "{text}");
        }
        let Node::Binary(Binary::Add, args) = lowered(":x + (2 + 3)") else { panic!("a sum") };
        assert_eq!(args[1], Node::Constant(Value::Int(5)));
    }
}
